//! What the workloads and the corpus promise whoever runs them. That the references accept what the kernels compute is
//! held where kernels run, in the SM model's tests.

mod corpus;
mod table;
