//! What the workloads and the corpus promise whoever runs them, and their references against arithmetic written twice.

mod corpus;
mod references;
mod table;
