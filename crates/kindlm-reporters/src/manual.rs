//! Shows a page of Markdown on a terminal: headings, paragraphs, lists, tables and code.

use std::fmt;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use crate::page::{GAP, Ink, Page, columns};
use crate::{Style, visible};

/// The indent of everything but headings, in columns.
const INDENT: usize = 2;

/// The minimum width of a table column that is narrowed.
const NARROWEST: usize = 12;

/// Writes Markdown as text for a terminal, in lines that are not wider than `style.width`.
///
/// Without colours, inline code keeps its backticks. A link is shown as its text, followed by an absolute address in
/// parentheses. Blocks of HTML are left out.
///
/// # Errors
///
/// Fails if `out` fails.
pub fn write_manual(markdown: &str, style: &Style, out: &mut dyn fmt::Write) -> fmt::Result {
    let mut manual = Manual {
        page: Page::new(out, style),
        spans: Vec::new(),
        strong: 0,
        link: None,
        lists: Vec::new(),
        marker: None,
        begins_list: false,
        table: None,
        is_code: false,
        is_first: true,
    };
    for event in Parser::new_ext(markdown, Options::ENABLE_TABLES) {
        manual.event(event)?;
    }
    Ok(())
}

type Text = Vec<(Ink, String)>;

struct Manual<'a> {
    page: Page<'a>,
    /// The text of the open paragraph, heading or cell.
    spans: Text,
    /// The number of open headings and emphases.
    strong: usize,
    /// The address of the open link, if it is shown.
    link: Option<String>,
    /// The open lists, each with its next number; `None` for bullets.
    lists: Vec<Option<u64>>,
    /// The bullet or number of the open item, until it is written.
    marker: Option<String>,
    /// True until the first item of a list is written.
    begins_list: bool,
    /// The rows of the open table.
    table: Option<Vec<Vec<Text>>>,
    is_code: bool,
    /// True until the first block is written.
    is_first: bool,
}

impl Manual<'_> {
    fn event(&mut self, event: Event<'_>) -> fmt::Result {
        match event {
            Event::Start(tag) => return self.start(tag),
            Event::End(tag) => return self.end(tag),
            Event::Text(text) if self.is_code => self.spans.push((Ink::Code, visible(&text))),
            // A placeholder such as `<name>` looks like HTML.
            Event::Text(text) | Event::InlineHtml(text) => self.push(&text),
            Event::Code(text) if self.page.has_color() => {
                self.spans.push((Ink::Code, visible(&text)));
            }
            Event::Code(text) => self.push(&format!("`{text}`")),
            Event::SoftBreak => self.push(" "),
            Event::HardBreak => return self.paragraph(),
            _ => {}
        }
        Ok(())
    }

    fn push(&mut self, text: &str) {
        let ink = if self.strong > 0 { Ink::Strong } else { Ink::Plain };
        self.spans.push((ink, visible(text)));
    }

    fn start(&mut self, tag: Tag<'_>) -> fmt::Result {
        match tag {
            Tag::Heading { .. } | Tag::Emphasis | Tag::Strong => self.strong += 1,
            Tag::CodeBlock(_) => {
                self.paragraph()?;
                self.is_code = true;
            }
            Tag::List(first) => {
                // Write the text of the item that contains this list.
                self.paragraph()?;
                // An outer list continues without an empty line.
                self.begins_list = self.lists.is_empty();
                self.lists.push(first);
            }
            Tag::Item => {
                let next = self.lists.last_mut().and_then(Option::as_mut);
                self.marker = Some(next.map_or_else(
                    || "- ".to_owned(),
                    |number| {
                        *number += 1;
                        format!("{}. ", *number - 1)
                    },
                ));
            }
            Tag::Table(_) => self.table = Some(Vec::new()),
            Tag::TableHead | Tag::TableRow => {
                self.table.iter_mut().for_each(|it| it.push(Vec::new()));
            }
            Tag::Link { dest_url, .. } => {
                self.link = Some(dest_url.into_string()).filter(|it| it.contains("://"));
            }
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self, tag: TagEnd) -> fmt::Result {
        match tag {
            TagEnd::Heading(_) => {
                self.strong -= 1;
                self.blank()?;
                let text = std::mem::take(&mut self.spans);
                self.page.spans(0, 0, &borrowed(&text))?;
            }
            TagEnd::Emphasis | TagEnd::Strong => self.strong -= 1,
            TagEnd::Paragraph | TagEnd::Item => self.paragraph()?,
            TagEnd::CodeBlock => self.code()?,
            TagEnd::List(_) => {
                self.lists.pop();
            }
            TagEnd::TableCell => {
                let text = std::mem::take(&mut self.spans);
                if let Some(row) = self.table.as_mut().and_then(|it| it.last_mut()) {
                    row.push(text);
                }
            }
            TagEnd::Table => {
                let rows = self.table.take().unwrap_or_default();
                self.table(&rows)?;
            }
            TagEnd::Link => {
                if let Some(address) = self.link.take() {
                    self.push(&format!(" ({address})"));
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Writes the empty line between two blocks.
    fn blank(&mut self) -> fmt::Result {
        if std::mem::take(&mut self.is_first) { Ok(()) } else { self.page.blank() }
    }

    /// Returns the indent of a block inside the open lists.
    fn indent(&self) -> usize {
        INDENT * (1 + self.lists.len())
    }

    /// Writes the open paragraph, with its bullet if it begins an item.
    fn paragraph(&mut self) -> fmt::Result {
        if self.spans.is_empty() {
            return Ok(());
        }
        let mut text = std::mem::take(&mut self.spans);
        let Some(marker) = self.marker.take() else {
            self.blank()?;
            return self.page.spans(self.indent(), 0, &borrowed(&text));
        };
        if std::mem::take(&mut self.begins_list) {
            self.blank()?;
        }
        let hang = marker.len();
        text.insert(0, (Ink::Plain, marker));
        self.page.spans(self.indent() - INDENT, hang, &borrowed(&text))
    }

    fn code(&mut self) -> fmt::Result {
        self.is_code = false;
        self.blank()?;
        let text: String = std::mem::take(&mut self.spans).into_iter().map(|(_, it)| it).collect();
        for line in text.trim_end_matches('\n').split('\n') {
            if line.is_empty() {
                self.page.blank()?;
            } else {
                let hang = line.len() - line.trim_start().len() + INDENT;
                self.page.spans(self.indent() + INDENT, hang, &[(Ink::Code, line)])?;
            }
        }
        Ok(())
    }

    /// Writes a table. If the page is too narrow for the columns, writes each row as a paragraph and a list.
    fn table(&mut self, rows: &[Vec<Text>]) -> fmt::Result {
        self.blank()?;
        let indent = self.indent();
        let Some((head, body)) = rows.split_first() else { return Ok(()) };
        let Some(widths) = widths(rows, self.page.width().saturating_sub(indent)) else {
            return self.stacked(head, body);
        };
        let shown = rows.iter().skip(usize::from(head.iter().all(Vec::is_empty)));
        for (at, row) in shown.enumerate() {
            let is_head = at == 0 && !head.iter().all(Vec::is_empty);
            let cells: Vec<_> = row
                .iter()
                .zip(&widths)
                .map(|(text, width)| {
                    let ink = |ink| if is_head { Ink::Strong } else { ink };
                    (*width, text.iter().map(|(it, text)| (ink(*it), text.as_str())).collect())
                })
                .collect();
            self.page.row(indent, &cells)?;
        }
        Ok(())
    }

    fn stacked(&mut self, head: &[Text], body: &[Vec<Text>]) -> fmt::Result {
        let indent = self.indent();
        for row in body {
            for (at, (name, text)) in head.iter().zip(row).enumerate() {
                if text.is_empty() {
                    continue;
                }
                let mut spans = Vec::new();
                if at > 0 && !name.is_empty() {
                    spans.extend(borrowed(name));
                    spans.push((Ink::Plain, ": "));
                }
                spans.extend(borrowed(text));
                self.page.spans(indent + if at == 0 { 0 } else { INDENT }, INDENT, &spans)?;
            }
        }
        Ok(())
    }
}

fn borrowed(text: &Text) -> Vec<(Ink, &str)> {
    text.iter().map(|(ink, text)| (*ink, text.as_str())).collect()
}

fn width(text: &Text) -> usize {
    text.iter().map(|(_, text)| columns(text)).sum()
}

/// Returns the column widths of a table that fits into `room` characters; `None` if the table does not fit.
///
/// The widest columns are narrowed first. The first column, which has names, is narrowed only if it is wider than half
/// of `room`.
fn widths(rows: &[Vec<Text>], room: usize) -> Option<Vec<usize>> {
    let mut widths: Vec<usize> = Vec::new();
    for row in rows {
        widths.resize(widths.len().max(row.len()), 0);
        for (widest, text) in widths.iter_mut().zip(row) {
            *widest = width(text).max(*widest);
        }
    }
    let gaps = GAP * widths.len().saturating_sub(1);
    let fixed = usize::from(widths.first().is_some_and(|it| *it <= room / 2));
    while widths.iter().sum::<usize>() + gaps > room {
        let widest = widths.iter_mut().skip(fixed).max()?;
        if *widest <= NARROWEST {
            return None;
        }
        *widest -= 1;
    }
    Some(widths)
}
