//! What a message must say.

/// Succeeds for a text or an error that names all of these parts.
///
/// # Panics
/// If one of them is not in it; the message names both.
#[track_caller]
pub fn assert_names(text: &(impl std::fmt::Display + ?Sized), parts: &[&str]) {
    let text = text.to_string();
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in {text:?}");
    }
}
