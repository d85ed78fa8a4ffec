//! What workloads and corpus promise to those that run them. The SM model's tests, where kernels run, hold that the
//! references accept what the kernels compute.

mod corpus;
mod table;
