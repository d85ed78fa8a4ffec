//! Why a plan was made: what the policy had heard of since the plan before.
//!
//! A policy hears of several things before it plans, and does not say which of them made a difference. So a plan
//! carries all of them, as bits of the probe's last argument; the first one in the order of [`Cause`] is its principal
//! cause, because what is rarer stands first.

/// Something that a policy hears of; the discriminants are numbers of bits, and stay as they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Cause {
    /// An operator chose another policy, which has decided since.
    Policy = 0,
    /// The policy failed, and another one took its place.
    Failure = 1,
    /// It lost events, and all that lives was named anew.
    Loss = 2,
    /// A tenant came, left, or got another weight or class.
    Tenant = 3,
    /// A row of kernels came or went.
    Kernel = 4,
    /// A launch arrived.
    Arrival = 5,
    /// A launch ended or was taken back.
    End = 6,
    /// Blocks of a launch started or ended.
    Progress = 7,
    /// What tenants hold of the device, or what their kernels do there, was measured.
    Measurement = 8,
    /// The time had come for which the policy had asked, or nothing but time had passed.
    Timer = 9,
}

impl Cause {
    /// All causes, the rarest first.
    pub const ALL: [Self; 10] = [
        Self::Policy,
        Self::Failure,
        Self::Loss,
        Self::Tenant,
        Self::Kernel,
        Self::Arrival,
        Self::End,
        Self::Progress,
        Self::Measurement,
        Self::Timer,
    ];

    /// Returns the cause's name, the same wherever one is shown.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Policy => "policy",
            Self::Failure => "failure",
            Self::Loss => "loss",
            Self::Tenant => "tenant",
            Self::Kernel => "kernel",
            Self::Arrival => "arrival",
            Self::End => "end",
            Self::Progress => "progress",
            Self::Measurement => "measurement",
            Self::Timer => "timer",
        }
    }
}

/// The causes of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Causes(u64);

impl Causes {
    /// Returns the causes that a probe's argument names; bits of no cause are left out.
    #[must_use]
    pub fn from_bits(bits: u64) -> Self {
        Cause::ALL
            .into_iter()
            .filter(|cause| bits >> *cause as u8 & 1 == 1)
            .collect()
    }

    /// Returns the probe's argument.
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// Adds one.
    pub const fn add(&mut self, cause: Cause) {
        self.0 |= 1 << cause as u8;
    }

    /// Returns whether there is none.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns them, the principal one first.
    pub fn iter(self) -> impl Iterator<Item = Cause> {
        Cause::ALL
            .into_iter()
            .filter(move |cause| self.0 >> *cause as u8 & 1 == 1)
    }
}

impl FromIterator<Cause> for Causes {
    fn from_iter<I: IntoIterator<Item = Cause>>(causes: I) -> Self {
        let mut all = Self::default();
        causes.into_iter().for_each(|cause| all.add(cause));
        all
    }
}

/// Their names, with commas between them; `-` where there is none.
impl std::fmt::Display for Causes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.is_empty() {
            return f.write_str("-");
        }
        for (place, cause) in self.iter().enumerate() {
            f.write_str(if place == 0 { "" } else { "," })?;
            f.write_str(cause.name())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Cause, Causes};
    use std::collections::HashSet;

    #[test]
    fn a_set_says_what_was_put_into_it() {
        for (number, cause) in Cause::ALL.into_iter().enumerate() {
            assert_eq!(cause as usize, number);
            let one = Causes::from_bits(1 << number);
            assert_eq!(one.iter().collect::<Vec<_>>(), [cause]);
            assert_eq!(one.to_string(), cause.name());
            assert_eq!(serde_json::to_value(cause).unwrap(), cause.name());
        }
        let names: HashSet<_> = Cause::ALL.map(Cause::name).into();
        assert_eq!(names.len(), Cause::ALL.len());
        let both: Causes = [Cause::Timer, Cause::Arrival].into_iter().collect();
        assert_eq!(both.to_string(), "arrival,timer");
        assert_eq!(Causes::from_bits(both.bits()), both);
    }

    #[test]
    fn bits_of_no_cause_are_left_out() {
        let all: Causes = Cause::ALL.into_iter().collect();
        assert_eq!(Causes::from_bits(u64::MAX), all);
        assert!(Causes::from_bits(1 << 63).is_empty());
        assert_eq!(Causes::default().to_string(), "-");
    }
}
