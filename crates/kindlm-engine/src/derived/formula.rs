//! Formulas: arithmetic over names, with the operator precedence of mathjs, which promptfoo uses.
//!
//! From low to high precedence: `a ? b : c`, comparisons, `+ -`, `* / %`, unary sign, `^` (right-associative), calls
//! and parentheses. So `-x^2` is `-(x^2)`. The existing formula crates evaluate `-x^2` as `(-x)^2`, so KindLM has its
//! own parser.

use std::cmp::Ordering;
use std::fmt;

/// The maximum length of a formula, in bytes.
const LONGEST: usize = 4096;
/// The maximum nesting of conditionals (`a ? b : c`), parentheses, signs and powers.
const DEEPEST: usize = 64;

/// A parsed formula over names.
#[derive(Clone, Debug, PartialEq)]
pub struct Formula(Term);

/// The reason why a text is not a valid formula.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}{}", place(*.at))]
#[non_exhaustive]
pub struct FormulaError {
    /// The index of the character with the problem, from 0; `None` for the end of the text.
    pub at: Option<usize>,
    /// The error message, without the location.
    pub message: String,
}

fn place(at: Option<usize>) -> String {
    at.map_or_else(|| ", at the end".to_owned(), |at| format!(", at character {}", at + 1))
}

#[derive(Clone, Debug, PartialEq)]
enum Term {
    Number(f64),
    Name(String),
    Negated(Box<Term>),
    Two(Sign, Box<[Term; 2]>),
    Choice(Box<[Term; 3]>),
    Call(&'static Function, Vec<Term>),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Sign {
    Plus,
    Minus,
    Times,
    Over,
    Modulo,
    Power,
    Less,
    AtMost,
    More,
    AtLeast,
    Equal,
    Unequal,
}

/// A function with its allowed numbers of arguments.
struct Function {
    name: &'static str,
    arguments: std::ops::RangeInclusive<usize>,
    apply: fn(&[f64]) -> f64,
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl PartialEq for Function {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

const MANY: usize = 64;

#[expect(clippy::cast_precision_loss, reason = "there are at most 64 arguments")]
static FUNCTIONS: &[Function] = &[
    Function { name: "abs", arguments: 1..=1, apply: |it| it[0].abs() },
    Function { name: "sqrt", arguments: 1..=1, apply: |it| it[0].sqrt() },
    Function { name: "cbrt", arguments: 1..=1, apply: |it| it[0].cbrt() },
    Function { name: "exp", arguments: 1..=1, apply: |it| it[0].exp() },
    Function { name: "log2", arguments: 1..=1, apply: |it| it[0].log2() },
    Function { name: "log10", arguments: 1..=1, apply: |it| it[0].log10() },
    Function {
        name: "log",
        arguments: 1..=2,
        apply: |it| it.get(1).map_or_else(|| it[0].ln(), |base| it[0].ln() / base.ln()),
    },
    Function { name: "pow", arguments: 2..=2, apply: |it| it[0].powf(it[1]) },
    Function { name: "floor", arguments: 1..=1, apply: |it| it[0].floor() },
    Function { name: "ceil", arguments: 1..=1, apply: |it| it[0].ceil() },
    Function { name: "round", arguments: 1..=2, apply: |it| rounded(it[0], it.get(1).copied()) },
    Function {
        name: "sign",
        arguments: 1..=1,
        apply: |it| if it[0] == 0.0 { 0.0 } else { it[0].signum() },
    },
    Function { name: "min", arguments: 1..=MANY, apply: |it| fold(it, f64::min) },
    Function { name: "max", arguments: 1..=MANY, apply: |it| fold(it, f64::max) },
    Function { name: "sum", arguments: 1..=MANY, apply: |it| it.iter().sum() },
    Function {
        name: "mean",
        arguments: 1..=MANY,
        apply: |it| it.iter().sum::<f64>() / it.len() as f64,
    },
];

fn rounded(value: f64, digits: Option<f64>) -> f64 {
    let scale = 10_f64.powf(digits.unwrap_or(0.0).trunc().clamp(0.0, 15.0));
    (value * scale).round() / scale
}

/// Combines values with a function. The result is NaN without values, or if any value is NaN.
fn fold(values: &[f64], with: fn(f64, f64) -> f64) -> f64 {
    let keep = |a: f64, b: f64| if a.is_nan() || b.is_nan() { f64::NAN } else { with(a, b) };
    values.iter().copied().reduce(keep).unwrap_or(f64::NAN)
}

/// Compares two numbers. As in mathjs, numbers that differ only by rounding are equal. Returns `None` if one number is
/// NaN.
fn compare_numbers(a: f64, b: f64) -> Option<Ordering> {
    let tolerance = (1e-12 * a.abs().max(b.abs())).max(1e-15);
    let is_near = a.is_finite() && b.is_finite() && (a - b).abs() <= tolerance;
    if is_near { Some(Ordering::Equal) } else { a.partial_cmp(&b) }
}

impl Formula {
    /// Parses a formula of at most 4096 bytes. Fails if the text is too long, not a formula, or nested too deeply.
    pub fn parse(text: &str) -> Result<Self, FormulaError> {
        if text.len() > LONGEST {
            let message = format!("a formula has at most {LONGEST} bytes");
            return Err(FormulaError { at: Some(0), message });
        }
        let mut parser = Parser { text, at: 0, depth: 0 };
        let term = parser.choice()?;
        parser.skip();
        match parser.rest().chars().next() {
            None => Ok(Self(term)),
            Some(it) => Err(parser.wrong(format!("unexpected `{it}`"))),
        }
    }

    /// Returns the value of the formula. Fails with the first unknown name.
    ///
    /// `pi` and `e` are constants, unless `named` defines them.
    pub fn evaluate(&self, named: &dyn Fn(&str) -> Option<f64>) -> Result<f64, String> {
        self.0.evaluate(named)
    }
}

impl Term {
    fn evaluate(&self, named: &dyn Fn(&str) -> Option<f64>) -> Result<f64, String> {
        let truth = |it: bool| f64::from(u8::from(it));
        Ok(match self {
            Self::Number(number) => *number,
            Self::Name(name) => match (named(name), name.as_str()) {
                (Some(value), _) => value,
                (None, "pi") => std::f64::consts::PI,
                (None, "e") => std::f64::consts::E,
                (None, _) => return Err(name.clone()),
            },
            Self::Negated(term) => -term.evaluate(named)?,
            Self::Choice(parts) => {
                let [condition, yes, no] = &**parts;
                let condition = condition.evaluate(named)?;
                let chosen = if condition == 0.0 || condition.is_nan() { no } else { yes };
                chosen.evaluate(named)?
            }
            Self::Call(function, arguments) => {
                let values: Vec<f64> =
                    arguments.iter().map(|it| it.evaluate(named)).collect::<Result<_, _>>()?;
                (function.apply)(&values)
            }
            Self::Two(sign, sides) => {
                let [a, b] = &**sides;
                let (a, b) = (a.evaluate(named)?, b.evaluate(named)?);
                match sign {
                    Sign::Plus => a + b,
                    Sign::Minus => a - b,
                    Sign::Times => a * b,
                    Sign::Over => a / b,
                    // As in mathjs, the result has the sign of the divisor.
                    Sign::Modulo => a - b * (a / b).floor(),
                    Sign::Power => a.powf(b),
                    Sign::Less => truth(compare_numbers(a, b).is_some_and(Ordering::is_lt)),
                    Sign::AtMost => truth(compare_numbers(a, b).is_some_and(Ordering::is_le)),
                    Sign::More => truth(compare_numbers(a, b).is_some_and(Ordering::is_gt)),
                    Sign::AtLeast => truth(compare_numbers(a, b).is_some_and(Ordering::is_ge)),
                    Sign::Equal => truth(compare_numbers(a, b).is_some_and(Ordering::is_eq)),
                    Sign::Unequal => truth(compare_numbers(a, b).is_none_or(Ordering::is_ne)),
                }
            }
        })
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

const COMPARISONS: &[(&str, Sign)] = &[
    ("==", Sign::Equal),
    ("!=", Sign::Unequal),
    ("<=", Sign::AtMost),
    (">=", Sign::AtLeast),
    ("<", Sign::Less),
    (">", Sign::More),
];
const SUMS: &[(&str, Sign)] = &[("+", Sign::Plus), ("-", Sign::Minus)];
const PRODUCTS: &[(&str, Sign)] = &[("*", Sign::Times), ("/", Sign::Over), ("%", Sign::Modulo)];

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn skip(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    /// Skips white space, and consumes `mark` if it comes next.
    ///
    /// Returns true if `mark` was consumed.
    fn takes(&mut self, mark: &str) -> bool {
        self.skip();
        let found = self.rest().starts_with(mark);
        self.at += if found { mark.len() } else { 0 };
        found
    }

    fn wrong(&self, message: impl Into<String>) -> FormulaError {
        FormulaError { at: self.character(self.at), message: message.into() }
    }

    /// Returns the index of the character at a byte offset; `None` at the end of the text.
    fn character(&self, at: usize) -> Option<usize> {
        (at < self.text.len()).then(|| self.text.char_indices().take_while(|it| it.0 < at).count())
    }

    fn expects(&mut self, mark: &str) -> Result<(), FormulaError> {
        if self.takes(mark) { Ok(()) } else { Err(self.wrong(format!("`{mark}` is missing"))) }
    }

    fn deeper<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, FormulaError>,
    ) -> Result<T, FormulaError> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(self.wrong(format!("more than {DEEPEST} nested parts")));
        }
        let read = read(self);
        self.depth -= 1;
        read
    }

    fn choice(&mut self) -> Result<Term, FormulaError> {
        self.deeper(|it| {
            let condition = it.chain(COMPARISONS, Self::sum)?;
            if !it.takes("?") {
                return Ok(condition);
            }
            let yes = it.choice()?;
            it.expects(":")?;
            Ok(Term::Choice(Box::new([condition, yes, it.choice()?])))
        })
    }

    fn sum(&mut self) -> Result<Term, FormulaError> {
        self.chain(SUMS, |it| it.chain(PRODUCTS, Self::signed))
    }

    /// Parses terms joined by left-associative operators of one precedence.
    fn chain(
        &mut self,
        signs: &[(&str, Sign)],
        next: impl Fn(&mut Self) -> Result<Term, FormulaError>,
    ) -> Result<Term, FormulaError> {
        let mut term = next(self)?;
        while let Some((_, sign)) = signs.iter().find(|(mark, _)| self.takes(mark)) {
            term = Term::Two(*sign, Box::new([term, next(self)?]));
        }
        Ok(term)
    }

    fn signed(&mut self) -> Result<Term, FormulaError> {
        if self.takes("-") {
            return self.deeper(|it| Ok(Term::Negated(Box::new(it.signed()?))));
        }
        if self.takes("+") {
            return self.deeper(Self::signed);
        }
        let base = self.atom()?;
        if !self.takes("^") {
            return Ok(base);
        }
        self.deeper(|it| Ok(Term::Two(Sign::Power, Box::new([base, it.signed()?]))))
    }

    fn atom(&mut self) -> Result<Term, FormulaError> {
        if self.takes("(") {
            let inner = self.choice()?;
            self.expects(")")?;
            return Ok(inner);
        }
        self.skip();
        let begin = self.at;
        let rest = self.rest();
        match rest.chars().next() {
            Some(it) if it.is_ascii_digit() || it == '.' => self.number(),
            Some(it) if it.is_alphabetic() || it == '_' => {
                let is_part = |it: char| it.is_alphanumeric() || it == '_';
                let end = rest.find(|it| !is_part(it)).unwrap_or(rest.len());
                let name = rest.get(..end).unwrap_or_default();
                self.at += end;
                if self.takes("(") {
                    self.call(name, begin)
                } else {
                    Ok(Term::Name(name.to_owned()))
                }
            }
            Some(it) => Err(self.wrong(format!("unexpected `{it}`"))),
            None => Err(self.wrong("a part is missing")),
        }
    }

    fn number(&mut self) -> Result<Term, FormulaError> {
        let rest = self.rest();
        let digits =
            |from: &str| from.len() - from.trim_start_matches(|it: char| it.is_ascii_digit()).len();
        let tail = |from: usize| rest.get(from..).unwrap_or_default();
        let mut end = digits(rest);
        if tail(end).starts_with('.') {
            end += 1 + digits(tail(end + 1));
        }
        if tail(end).starts_with(['e', 'E']) {
            let signed = usize::from(tail(end + 1).starts_with(['+', '-']));
            let exponent = digits(tail(end + 1 + signed));
            end += if exponent > 0 { 1 + signed + exponent } else { 0 };
        }
        let text = rest.get(..end).unwrap_or_default();
        let number = text.parse().map_err(|_| self.wrong(format!("`{text}` is not a number")))?;
        self.at += end;
        Ok(Term::Number(number))
    }

    fn call(&mut self, name: &str, begin: usize) -> Result<Term, FormulaError> {
        let at = self.character(begin);
        let Some(function) = FUNCTIONS.iter().find(|it| it.name == name) else {
            let names: Vec<String> = FUNCTIONS.iter().map(|it| format!("`{}`", it.name)).collect();
            let message = format!("there is no function `{name}`; there are {}", names.join(", "));
            return Err(FormulaError { at, message });
        };
        let mut arguments = vec![self.choice()?];
        while self.takes(",") {
            arguments.push(self.choice()?);
        }
        self.expects(")")?;
        if !function.arguments.contains(&arguments.len()) {
            let message = format!("`{name}` does not take {} arguments", arguments.len());
            return Err(FormulaError { at, message });
        }
        Ok(Term::Call(function, arguments))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn value(text: &str) -> Result<f64, String> {
        let named = |name: &str| match name {
            "P" => Some(1.5),
            "R" => Some(2.5),
            "zero" => Some(0.0),
            _ => None,
        };
        Formula::parse(text).map_err(|err| err.to_string())?.evaluate(&named)
    }

    #[test]
    fn formulas_agree_with_mathjs() {
        for (text, expected) in [
            ("2 * P * R / (P + R)", 1.875),
            ("-2^2", -4.0),
            ("2^-1", 0.5),
            ("2^3^2", 512.0),
            ("2 * -3", -6.0),
            ("10 - 4 - 3", 3.0),
            ("2 + 3 * 4", 14.0),
            ("-7 % 3", 2.0),
            ("1e3 + .5", 1000.5),
            ("max(P, R, 1) - min(1, 2)", 1.5),
            ("round(2.456, 2) + floor(1.9) + log(8, 2)", 6.46),
            ("mean(1, 2, 3) + sum(1, 2)", 5.0),
            ("zero == 0 ? 7 : 1 / zero", 7.0),
            ("P > R ? 1 : P < R ? 2 : 3", 2.0),
            ("(P >= 1.5) + (R != 2)", 2.0),
            ("e - e + round(pi)", 3.0),
            ("+P", 1.5),
            ("(zero == -zero) + (zero != -zero)", 1.0),
            ("(0 / 0 == 0 / 0) + 2 * (0 / 0 != 0 / 0)", 2.0),
            ("0 / 0 ? 1 : 2", 2.0),
            ("(0.1 + 0.2 == 0.3) + (0.1 + 0.2 > 0.3)", 1.0),
            ("1 + 1e-11 > 1", 1.0),
            ("1 / zero == 1 / zero", 1.0),
        ] {
            assert!((value(text).unwrap() - expected).abs() < 1e-12, "{text}: {:?}", value(text));
        }
        assert_eq!(value("nope + 1"), Err("nope".to_owned()));
        assert!(value("0 / 0").unwrap().is_nan());
    }

    #[test]
    fn invalid_formulas_name_place_and_reason() {
        for (text, expected) in [
            ("", "a part is missing, at the end"),
            ("P +", "a part is missing, at the end"),
            ("P R", "unexpected `R`, at character 3"),
            ("(P", "`)` is missing, at the end"),
            ("P ? 1", "`:` is missing, at the end"),
            ("2 $ 3", "unexpected `$`, at character 3"),
            ("nan(1)", "there is no function `nan`; there are `abs`, `sqrt`"),
            ("1 + pow(2)", "`pow` does not take 1 arguments, at character 5"),
            ("1..2", "unexpected `.`, at character 3"),
            (".", "`.` is not a number, at character 1"),
            ("é $", "unexpected `$`, at character 3"),
        ] {
            let err = value(text).unwrap_err();
            assert!(err.starts_with(expected), "{text}: {err}");
        }
        assert!(value(&"(".repeat(200)).unwrap_err().contains("nested parts"));
        assert!(value(&"-".repeat(200)).unwrap_err().contains("nested parts"));
        assert!(value(&format!("1{}", "+1".repeat(3000))).unwrap_err().contains("at most 4096"));
    }

    proptest! {
        #[test]
        fn any_text_is_a_formula_or_not(text in r"[PRe0-9.+*/^%()?:<>=!, é_-]{0,40}") {
            if let Ok(formula) = Formula::parse(&text) {
                let _ = formula.evaluate(&|_| Some(1.0));
            }
        }
    }
}
