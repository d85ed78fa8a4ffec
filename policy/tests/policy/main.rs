//! What policies do: what each owes its executor, the combined policy and SMK-P in small cases, and shares over time.

mod gridmux;
mod host;
mod policies;
mod slices;
mod toy;
