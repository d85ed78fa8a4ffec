//! A program that uses the driver library as programs do and as they should not: `cuda_client SCENARIO [ARGUMENT]`.
//!
//! Each scenario is a function that panics where the library answers otherwise than NVIDIA documents. It runs in a
//! process of its own, because a process has one connection, may fork, and may be killed. `CUDA_LIBRARY` names the
//! library, `CUDART_LIBRARY` and `CUDART12_LIBRARY` the runtime libraries on it; `tests/tests/service/cuda` starts the
//! scenarios, each against a service of its own.

/// Declares the scenarios of a module: a family's name and functions of the module, by whose names they are started.
macro_rules! scenarios {
    ($($family:ident: $($name:ident)*;)*) => {
        pub(crate) const SCENARIOS: &[crate::Scenario] =
            &[$($((concat!(stringify!($family), "::", stringify!($name)), $name)),*),*];
    };
}

mod api;
mod arrays;
mod boxes;
mod captures;
mod codes;
mod contexts;
mod cooperative;
mod copies;
mod entry;
mod faults;
mod forks;
mod graph_objects;
mod graph_races;
mod graphs;
mod handles;
mod host_functions;
mod kernels;
mod launches;
mod managed;
mod mapped;
mod memory;
mod modules;
mod nulls;
mod occupancy;
mod pools;
mod printing;
mod races;
mod records;
mod runtime;
mod runtime_work;
mod session;
mod streams;
mod textures;
mod victim;
mod virtual_memory;

/// A scenario: its name and what it does.
type Scenario = (&'static str, fn());

/// Every family's scenarios.
const SCENARIOS: &[&[Scenario]] = &[
    entry::SCENARIOS,
    contexts::SCENARIOS,
    modules::SCENARIOS,
    launches::SCENARIOS,
    cooperative::SCENARIOS,
    memory::SCENARIOS,
    mapped::SCENARIOS,
    managed::SCENARIOS,
    arrays::SCENARIOS,
    textures::SCENARIOS,
    virtual_memory::SCENARIOS,
    copies::SCENARIOS,
    boxes::SCENARIOS,
    codes::OBJECTS,
    codes::MEMORY,
    codes::WORK,
    codes::RUNTIME,
    pools::SCENARIOS,
    streams::SCENARIOS,
    host_functions::SCENARIOS,
    graphs::SCENARIOS,
    graph_objects::SCENARIOS,
    graph_races::SCENARIOS,
    captures::SCENARIOS,
    printing::SCENARIOS,
    records::SCENARIOS,
    runtime::SCENARIOS,
    runtime_work::SCENARIOS,
    occupancy::SCENARIOS,
    faults::SCENARIOS,
    handles::SCENARIOS,
    nulls::SCENARIOS,
    forks::SCENARIOS,
    races::SCENARIOS,
    victim::SCENARIOS,
];

/// Returns the argument behind the scenario's name.
pub(crate) fn argument() -> String {
    std::env::args()
        .nth(2)
        .expect("the scenario takes an argument")
}

fn main() {
    let name = std::env::args().nth(1).unwrap_or_default();
    let found = SCENARIOS
        .iter()
        .copied()
        .flatten()
        .find(|(known, _)| *known == name);
    let (_, act) = found.unwrap_or_else(|| panic!("there is no scenario {name:?}"));
    act();
    println!("done");
}
