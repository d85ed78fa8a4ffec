//! What policies do: what each owes its executor, and the combined policy and SMK-P in small cases.

mod gridmux;
mod host;
mod policies;
mod smk;
mod warped_slicer;
