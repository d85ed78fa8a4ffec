//! `gridmux tenant pause`, `resume` and `show --why`, as a script asks for them.

use crate::command::gridmux;
use crate::command::running::{Service, until};
use serde_json::json;

#[test]
fn a_tenant_is_paused_goes_on_and_says_what_binds_it() {
    let service = Service::start("pause");
    let run_dir = service.run_dir.to_str().unwrap();
    let why = || service.ask(&["tenant", "show", "second", "--why"]);
    until("it to have nothing to do", || {
        let why = why();
        (why["binds"] == "idle" && why["bound_for_ms"].is_u64()).then_some(())
    });
    let paused = service.ask(&["tenant", "pause", "second"]);
    assert_eq!(
        [&paused["tenant"]["state"], &paused["until"]],
        [&json!("paused"), &json!("resume")]
    );
    until("the pause to be obeyed", || {
        let why = why();
        let says = why["sentence"].as_str().unwrap().contains("paused it");
        (why["binds"] == "paused" && says).then_some(())
    });
    let text = |command: &[&str]| {
        let ran = gridmux(command.iter().chain(&["--run-dir", run_dir]));
        ran.succeeded().stdout
    };
    assert!(text(&["tenant", "list"]).contains("normal (paused)"));
    let said = text(&["tenant", "show", "second", "--why"]);
    assert!(said.contains("an operator paused it"), "{said}");
    let said = text(&["tenant", "pause", "second"]);
    assert!(
        said.contains("until `gridmux tenant resume second`"),
        "{said}"
    );
    assert_eq!(text(&["tenant", "resume", "second"]), "second: running\n");
    until("it to go on", || (why()["binds"] == "idle").then_some(()));
    let nobody = gridmux(["-j", "tenant", "pause", "nobody", "--run-dir", run_dir]);
    nobody.failed(1, &["nobody", "first, second"]);
    let all = gridmux(["-j", "tenant", "show", "--why", "--run-dir", run_dir]).json();
    let of_each = all.as_array().unwrap().iter().map(|of| &of["tenant"]);
    assert!(of_each.eq(["first", "second"].iter()), "{all}");
    assert_eq!(service.stop(), Some(0));
}
