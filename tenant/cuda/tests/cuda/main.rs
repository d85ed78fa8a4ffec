//! What of the driver library can be tested without a service: images, arguments, and the list of what is covered.

mod documents;
mod found;
mod handles;
mod image;
