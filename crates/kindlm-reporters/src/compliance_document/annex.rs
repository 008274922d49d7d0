//! The section that maps the points of Annex IV of the EU AI Act to the sections of the document.

use kindlm_types::AnyReport;

use super::blocks::{Block, Cell, Document};
use super::{Law, is_traced};
use crate::RenderError;

/// The entries of the table for points of Annex IV that no section covers.
const NOT_COVERED: &str = "not covered";
const BY_PEOPLE: &str = "to be written by you";

/// The points of Annex IV: the number, the content, and the sections that cover the point.
const POINTS: [(&str, &str, &str); 20] = [
    (
        "1 (a)",
        "Intended purpose, name of the provider, version",
        "section 2, as stated in the suite; the relation to earlier versions is to be written by you",
    ),
    (
        "1 (b) to (h)",
        "Interaction with other systems, versions of software, forms of supply, hardware, user interface, instructions for use",
        BY_PEOPLE,
    ),
    (
        "2 (a)",
        "Methods and steps of development, pre-trained systems and tools of third parties",
        BY_PEOPLE,
    ),
    ("2 (b)", "Design specifications, general logic, key design choices", BY_PEOPLE),
    ("2 (c)", "System architecture, computational resources", BY_PEOPLE),
    ("2 (d)", "Data requirements, training data sets", BY_PEOPLE),
    (
        "2 (e)",
        "Human oversight measures",
        "to be written by you; section 5 has evidence if a test exercises the hand-over to a person",
    ),
    ("2 (f)", "Pre-determined changes", BY_PEOPLE),
    ("2 (g)", "Validation and testing procedures", "section 3"),
    (
        "2 (g)",
        "Validation and testing data, and their main characteristics",
        "section 3 lists the files with digests; their characteristics are to be written by you",
    ),
    ("2 (g)", "Metrics for accuracy and robustness", "sections 3 and 4"),
    (
        "2 (g)",
        "Potentially discriminatory impacts",
        "section 6, if tags mark the groups of persons; else not covered",
    ),
    (
        "2 (g)",
        "Test logs, and test reports that are dated and signed by the responsible persons",
        "sections 1 and 5; the last section, when it is signed",
    ),
    ("2 (h)", "Cybersecurity measures", BY_PEOPLE),
    (
        "3",
        "Capabilities and limitations in performance, accuracy for specific persons or groups",
        "sections 4 and 6 have figures; unintended outcomes and sources of risk are to be written by you",
    ),
    (
        "4",
        "Appropriateness of the performance metrics",
        "to be written by you; section 4 has the metrics",
    ),
    (
        "5",
        "Risk management system (Article 9)",
        "to be written by you; section 4 has tests against prior defined thresholds (Article 9(8))",
    ),
    (
        "6",
        "Changes through the lifecycle",
        "to be written by you; one document for each version shows the results before and after",
    ),
    ("7 and 8", "Harmonised standards, EU declaration of conformity", NOT_COVERED),
    (
        "9",
        "Post-market monitoring (Article 72)",
        "to be written by you; repeated runs can be part of the plan",
    ),
];

/// Writes the section, which exists only for the EU AI Act.
pub(super) fn coverage(
    doc: &mut Document<'_>,
    report: &AnyReport<'_>,
    law: Law,
) -> Result<(), RenderError> {
    if !law.eu {
        return Ok(());
    }
    doc.section("Coverage of Annex IV", None)?;
    doc.put(Block::Paragraph(
        "This table says which points of Annex IV this document has evidence for, and which points other documents must \
         serve.",
    ))?;
    let rows = POINTS
        .iter()
        .map(|&(point, content, place)| Ok([Cell::from(point), content.into(), place.into()]));
    doc.table(&["Point", "Content", "Place"], rows)?;
    doc.put(Block::Heading(3, "Articles"))?;
    let traces = if is_traced(report) {
        "the run judged recorded traces of the system (section 5); the system's own logs are to be kept by you"
    } else {
        NOT_COVERED
    };
    let rows = [
        (
            "9(8)",
            "Testing against prior defined metrics and probabilistic thresholds",
            "section 4, quality gates",
        ),
        ("11", "Technical documentation", "this document as a part of it"),
        ("12", "Logs that the system records over its lifetime", traces),
        (
            "15",
            "Accuracy, robustness and cybersecurity",
            "section 4 for accuracy and robustness, as far as tested",
        ),
        ("17(1)(d)", "Examination, test and validation procedures", "sections 3 and 8"),
        (
            "18",
            "Documentation to be kept",
            "the document and the JSON report are to be kept by you; section 8 has their digests",
        ),
        ("72", "Post-market monitoring", "see point 9"),
    ];
    let rows = rows
        .map(|(article, content, place)| Ok([Cell::from(article), content.into(), place.into()]));
    doc.table(&["Article", "Content", "Place"], rows)
}
