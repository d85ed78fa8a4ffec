//! The tenants that are configured now: their numbers, and who may be which.
//!
//! Rules: a name gets a number when it is configured first and keeps it as long as the service runs, also while it is
//! not configured, so that what is counted under a number is always one tenant's. There are as many numbers as there
//! may be tenants at once; when all are given out, new names are refused until the service is started anew. A tenant
//! that is paused stays so by its number, whatever becomes of the configuration.

use super::identity::Peer;
use super::rules::Rules;
use crate::config::{Config, ConfigError, MAX_TENANTS};
use crate::dispatch::accounts::TenantState;
use crate::link::TenantFacts;
use std::collections::{BTreeSet, HashMap};

/// The tenants.
#[derive(Debug)]
pub(super) struct Tenants {
    /// Every name that was configured since the service started.
    numbers: HashMap<String, u16>,
    /// The numbers of those that are configured now, in the order of the configuration.
    current: Vec<u16>,
    /// The numbers of those that an operator has paused.
    paused: BTreeSet<u16>,
    rules: Rules,
    /// How often it changed who may be which tenant.
    generation: u64,
}

impl Tenants {
    /// Gives numbers to the tenants of the first configuration, whose rules are `rules`.
    ///
    /// # Errors
    /// There are more than there are numbers.
    pub(super) fn new(config: &Config, rules: Rules) -> Result<Self, ConfigError> {
        let mut tenants = Self {
            numbers: HashMap::new(),
            current: Vec::new(),
            paused: BTreeSet::new(),
            rules: Rules::default(),
            generation: 0,
        };
        tenants.set(config, rules)?;
        Ok(tenants)
    }

    /// Takes the tenants of another configuration in place of those before.
    ///
    /// # Errors
    /// There are no numbers left for new names; all is as before then.
    pub(super) fn set(&mut self, config: &Config, rules: Rules) -> Result<(), ConfigError> {
        let names = config.tenants.iter().map(|tenant| &tenant.name);
        let new: Vec<&String> = names
            .clone()
            .filter(|name| !self.numbers.contains_key(*name))
            .collect();
        let (known, most) = (self.numbers.len(), usize::from(MAX_TENANTS));
        if known + new.len() > most {
            return Err(ConfigError::Value {
                key: "tenant".into(),
                message: format!(
                    "{} new names beside the {known} that there were since the service started are over {most}; \
                     restart it, which forgets those that are gone",
                    new.len()
                ),
            });
        }
        for (number, name) in (known..).zip(new) {
            let number = u16::try_from(number).unwrap_or(u16::MAX);
            self.numbers.insert(name.clone(), number);
        }
        let current: Vec<u16> = names.map(|name| self.numbers[name]).collect();
        self.generation += u64::from((&current, &rules) != (&self.current, &self.rules));
        (self.current, self.rules) = (current, rules);
        Ok(())
    }

    /// Returns the generation of the rules: another number whenever others may be some tenant than before.
    pub(super) fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns whether a name was configured at any time since the service started.
    pub(super) fn knows(&self, name: &str) -> bool {
        self.numbers.contains_key(name)
    }

    /// Returns the number of a name that was configured at any time since the service started.
    pub(super) fn number(&self, name: &str) -> Option<u16> {
        self.numbers.get(name).copied()
    }

    /// Returns the name of a number.
    pub(super) fn name(&self, number: u16) -> Option<&str> {
        let mut all = self.numbers.iter();
        let found = all.find(|(_, known)| **known == number);
        found.map(|(name, _)| &**name)
    }

    /// Returns the numbers of those that are configured now, in the order of the configuration.
    pub(super) fn numbers(&self) -> &[u16] {
        &self.current
    }

    /// Returns the numbers and names of those that are not configured any more, by number.
    pub(super) fn taken_out(&self) -> Vec<(u32, String)> {
        let all = self.numbers.iter();
        let gone = all.filter(|(_, number)| !self.current.contains(number));
        let mut gone: Vec<(u32, String)> = gone
            .map(|(name, number)| ((*number).into(), name.clone()))
            .collect();
        gone.sort_unstable();
        gone
    }

    /// Returns the settings of the tenants in the configuration that they were made from.
    pub(super) fn facts(&self, config: &Config) -> Vec<TenantFacts> {
        let numbered = self.current.iter().zip(&config.tenants);
        numbered
            .map(|(number, tenant)| {
                let state = match self.paused.contains(number) {
                    true => TenantState::Paused,
                    false => TenantState::Running,
                };
                TenantFacts::new((*number).into(), tenant, config, state)
            })
            .collect()
    }

    /// Pauses a tenant or lets it go on, for as long as the service runs.
    pub(super) fn set_state(&mut self, name: &str, state: TenantState) {
        let Some(number) = self.numbers.get(name) else {
            return;
        };
        match state {
            TenantState::Paused => _ = self.paused.insert(*number),
            TenantState::Running => _ = self.paused.remove(number),
        }
    }

    /// Returns whether some tenant is matched by control group, so that a peer's must be read.
    pub(super) fn need_cgroup(&self) -> bool {
        self.rules.need_cgroup()
    }

    /// Returns the numbers of the tenants that a peer may be, in the order of the configuration.
    pub(super) fn allowed(&self, peer: &Peer) -> Vec<u16> {
        let places = self.rules.allowed(peer).into_iter();
        let number = |place| self.current.get(usize::from(place)).copied();
        places.filter_map(number).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Tenants;
    use crate::config::{Config, MAX_TENANTS};
    use crate::dispatch::accounts::TenantState;
    use crate::supervisor::rules::Rules;

    fn config(names: &[String]) -> Config {
        let tenant = |name: &String| format!("[[tenant]]\nname = {name:?}\n");
        let tenants: String = names.iter().map(tenant).collect();
        Config::parse(&format!("schema_version = 1\n{tenants}")).unwrap()
    }

    fn set(tenants: &mut Tenants, names: &[&str]) -> Vec<u16> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let config = config(&names);
        let rules = Rules::resolve(&config).unwrap();
        tenants.set(&config, rules).unwrap();
        tenants.numbers().to_vec()
    }

    #[test]
    fn a_name_keeps_its_number_and_nobody_else_gets_it() {
        let first = config(&["a".into(), "b".into(), "c".into()]);
        let mut tenants = Tenants::new(&first, Rules::resolve(&first).unwrap()).unwrap();
        assert_eq!(tenants.numbers(), [0, 1, 2]);
        assert_eq!(set(&mut tenants, &["c", "a"]), [2, 0]);
        assert_eq!(set(&mut tenants, &["d", "c"]), [3, 2]);
        assert_eq!(set(&mut tenants, &["b", "e", "a"]), [1, 4, 0]);
        let later = config(&["e".into()]);
        set(&mut tenants, &["e"]);
        let facts = tenants.facts(&later);
        assert_eq!((facts[0].number, &*facts[0].name), (4, "e"));
        let gone = tenants.taken_out();
        let gone: Vec<(u32, &str)> = gone.iter().map(|(n, name)| (*n, &**name)).collect();
        assert_eq!(gone, [(0, "a"), (1, "b"), (2, "c"), (3, "d")]);
    }

    #[test]
    fn another_rule_is_another_generation_and_the_same_one_is_none() {
        let of = |rule: &str| {
            let text = format!("schema_version = 1\n[[tenant]]\nname = \"a\"\n{rule}\n");
            let config = Config::parse(&text).unwrap();
            let rules = Rules::resolve(&config).unwrap();
            (config, rules)
        };
        let (config, rules) = of("user = 1000");
        let mut tenants = Tenants::new(&config, rules).unwrap();
        let mut after = |rule: &str| {
            let (config, rules) = of(rule);
            tenants.set(&config, rules).unwrap();
            tenants.generation()
        };
        let first = after("user = 1000");
        assert_eq!(after("user = 1000\nweight = 3"), first);
        assert_ne!(after("user = 1001"), first);
    }

    #[test]
    fn who_is_paused_stays_so_when_the_configuration_is_read_again_and_when_it_comes_back() {
        let first = config(&["a".into(), "b".into()]);
        let mut tenants = Tenants::new(&first, Rules::resolve(&first).unwrap()).unwrap();
        let states = |tenants: &Tenants, config: &Config| -> Vec<TenantState> {
            let facts = tenants.facts(config).into_iter();
            facts.map(|tenant| tenant.state).collect()
        };
        tenants.set_state("b", TenantState::Paused);
        let expected = [TenantState::Running, TenantState::Paused];
        assert_eq!(states(&tenants, &first), expected);
        set(&mut tenants, &["a"]);
        set(&mut tenants, &["b", "a"]);
        let again = config(&["b".into(), "a".into()]);
        assert_eq!(
            states(&tenants, &again),
            [TenantState::Paused, TenantState::Running]
        );
        tenants.set_state("b", TenantState::Running);
        assert_eq!(states(&tenants, &again), [TenantState::Running; 2]);
    }

    #[test]
    fn names_without_end_are_refused_and_those_that_were_stay() {
        let most = usize::from(MAX_TENANTS);
        let all: Vec<String> = (0..most).map(|number| format!("t{number}")).collect();
        let first = config(&all);
        let mut tenants = Tenants::new(&first, Rules::resolve(&first).unwrap()).unwrap();
        let next = config(&["t5".into(), "one-more".into()]);
        let rules = Rules::resolve(&next).unwrap();
        let error = tenants.set(&next, rules).unwrap_err().to_string();
        assert!(
            error.contains("1 new names") && error.contains("1024"),
            "{error}"
        );
        assert_eq!(tenants.numbers().len(), most);
        assert_eq!(set(&mut tenants, &["t7", "t5"]), [7, 5]);
    }
}
