//! Questions about use, and their answers.

use super::amounts::Amounts;
use super::identity::Identity;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// Most rows of an answer; the use of those who used least is in one more.
const MOST_ROWS: usize = 10_000;

/// A question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageQuery {
    /// Intervals that end after it count, in seconds since 1970; all without.
    pub since: Option<u64>,
    /// Intervals that begin before it count, in seconds since 1970; all without.
    pub until: Option<u64>,
    /// What a row is of.
    pub by: By,
}

/// What a row is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum By {
    /// A tenant.
    Tenant,
    /// A user, by number.
    User,
    /// A job.
    Job,
    /// A control group.
    Cgroup,
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageReport {
    /// Beginning of the first interval that counts, in seconds since 1970; none where nothing was used.
    pub first: Option<u64>,
    /// End of the last one.
    pub last: Option<u64>,
    /// By device time, the greatest first.
    pub rows: Vec<UsageRow>,
    /// Why what was used lately is not in the database yet, if it is not; it is in the rows.
    pub unwritten: Option<String>,
}

/// The use of one tenant, user, job or control group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageRow {
    /// The name, the user's number, the job or the control group; none of use that is known of no one of these.
    pub of: Option<String>,
    /// What was used.
    pub amounts: Amounts,
}

/// Sums up use for an answer.
#[derive(Debug)]
pub(super) struct Sums {
    query: UsageQuery,
    rows: HashMap<Option<String>, Amounts>,
    span: Option<(u64, u64)>,
}

impl Sums {
    pub(super) fn new(query: UsageQuery) -> Self {
        Self {
            query,
            rows: HashMap::new(),
            span: None,
        }
    }

    /// Returns whether an interval counts.
    pub(super) fn counts(&self, start: u64, end: u64) -> bool {
        let UsageQuery { since, until, .. } = self.query;
        since.is_none_or(|since| end > since) && until.is_none_or(|until| start < until)
    }

    /// Adds what an identity used in an interval that counts.
    pub(super) fn add(&mut self, (start, end): (u64, u64), identity: &Identity, used: &Amounts) {
        let (first, last) = self.span.unwrap_or((start, end));
        self.span = Some((first.min(start), last.max(end)));
        let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let of = match self.query.by {
            By::Tenant => text(&identity.tenant),
            By::User => identity.user.map(|user| user.to_string()),
            By::Job => text(&identity.job),
            By::Cgroup => text(&identity.cgroup),
        };
        self.rows.entry(of).or_default().add(used);
    }

    /// Returns the answer.
    pub(super) fn report(self, unwritten: Option<String>) -> UsageReport {
        let mut rows: Vec<UsageRow> = self
            .rows
            .into_iter()
            .map(|(of, amounts)| UsageRow { of, amounts })
            .collect();
        rows.sort_unstable_by(|one, other| {
            let by_use = other.amounts.sm_ns.cmp(&one.amounts.sm_ns);
            by_use.then_with(|| one.of.cmp(&other.of))
        });
        if rows.len() > MOST_ROWS {
            let mut rest = Amounts::default();
            for row in rows.drain(MOST_ROWS..) {
                rest.add(&row.amounts);
            }
            match rows.iter_mut().find(|row| row.of.is_none()) {
                Some(row) => row.amounts.add(&rest),
                None => rows.push(UsageRow {
                    of: None,
                    amounts: rest,
                }),
            }
        }
        let span = self.span;
        UsageReport {
            first: span.map(|(first, _)| first),
            last: span.map(|(_, last)| last),
            rows,
            unwritten,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{By, MOST_ROWS, Sums, UsageQuery, UsageReport};
    use crate::accounting::{Amounts, Identity};

    fn sums(by: By) -> Sums {
        Sums::new(UsageQuery {
            since: Some(100),
            until: Some(200),
            by,
        })
    }

    #[test]
    fn intervals_count_that_overlap_what_is_asked_for() {
        let sums = sums(By::Tenant);
        let counts = [(40, 100), (60, 120), (100, 160), (180, 240), (200, 260)];
        let counts = counts.map(|(start, end)| sums.counts(start, end));
        assert_eq!(counts, [false, true, true, true, false]);
    }

    #[test]
    fn more_rows_than_an_answer_holds_are_one_and_an_answer_survives_json() {
        let mut sums = sums(By::User);
        for user in 0..MOST_ROWS + 50 {
            let identity = Identity::new("t", u32::try_from(user).unwrap(), None);
            let used = Amounts {
                sm_ns: u128::from(u64::MAX) * 8 + user as u128,
                launches: 1,
                ..Amounts::default()
            };
            sums.add((120, 180), &identity, &used);
        }
        let report = sums.report(Some("why".into()));
        assert_eq!((report.first, report.last), (Some(120), Some(180)));
        assert_eq!(report.rows.len(), MOST_ROWS + 1);
        assert_eq!(report.rows[0].of.as_deref(), Some("10049"));
        let last = report.rows.last().unwrap();
        assert_eq!((&last.of, last.amounts.launches), (&None, 50));
        let text = serde_json::to_string(&report).unwrap();
        assert_eq!(serde_json::from_str::<UsageReport>(&text).unwrap(), report);
    }
}
