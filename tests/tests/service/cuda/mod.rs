//! Contract: the driver library answers as NVIDIA documents, whatever a program does with it, and whatever becomes of
//! the program, nothing of it stays in the service.
//!
//! Each test is a scenario of `tests/src/bin/cuda_client`, run in a process of its own against a service of its own.

mod ends;
mod printing;
mod program;
mod records;

use gridmux_tests::{Service, ServiceBuilder, assert_names};
use program::Program;

fn service() -> Service {
    builder().start()
}

/// Returns two tenants on a functional device, where an endless kernel ends soon.
fn builder() -> ServiceBuilder {
    ServiceBuilder::new(&[("tenant", 1), ("other", 1)]).functional()
}

/// Runs a scenario, and looks at what it left; returns what it said on stderr.
fn pass(builder: ServiceBuilder, scenario: &str, argument: &str) -> String {
    let service = builder.start();
    let host = service.statistics().host_pid;
    let said = Program::start(&service, "tenant", scenario, argument).succeed();
    let after = service.await_gone("tenant");
    let usage = service.tenant("tenant").usage;
    assert_eq!(
        (usage.pending, after.host.memory_used_bytes),
        (0, 0),
        "{usage:?}"
    );
    assert_eq!(
        (after.host_pid, after.host_restarts),
        (host, 0),
        "the device host is the same"
    );
    said
}

/// Declares a test for each scenario of a family.
macro_rules! scenarios {
    ($($family:ident: $($name:ident)*;)*) => {$(
        mod $family {
            $(
                #[test]
                fn $name() {
                    super::pass(super::builder(), concat!(stringify!($family), "::", stringify!($name)), "");
                }
            )*
        }
    )*};
}

scenarios! {
    entry: before_and_after_init many_threads_initialise_at_once functions_by_name codes_have_names
        the_device_is_coherent settings_of_core_dumps;
    contexts: the_stack_is_the_threads_own the_primary_context_is_counted a_destroyed_context_says_so
        what_a_context_holds_goes_with_it what_a_hidden_context_holds_goes_with_it
        parameters_that_ask_for_nothing limits_that_the_device_has_not_room_for
        calls_at_the_end_of_a_thread_and_of_the_process;
    modules: kernels_and_variables variables_alone bad_images messages_go_to_the_programs_buffers
        unloaded_while_it_runs libraries;
    launches: parameters_of_all_sizes bad_parameters bad_shapes configurations;
    codes: of_devices of_contexts without_a_context of_limits of_images of_modules_and_functions of_libraries of_links
        of_searches of_device_memory of_copies of_fills of_boxes of_host_memory of_addresses of_pools the_devices_pool
        of_streams of_events of_launches of_launch_attributes of_host_functions of_occupancy of_another_context
        of_the_runtimes_devices of_the_runtimes_memory of_the_runtimes_streams of_the_runtimes_kernels
        of_the_runtimes_launches;
    cooperative: blocks_meet_in_the_middle what_does_not_fit_is_refused blocks_wait_for_each_other
        the_device_runtime_is_linked a_node_stays_cooperative_when_its_parameters_are_set;
    memory: allocated_and_released pitched pinned_and_registered what_is_told_of_addresses
        what_is_given_back_is_found_by_its_address registered_and_unmapped;
    mapped: kernels_use_pinned_memory host_and_kernel_see_each_other_at_once copies_and_fills_take_its_addresses
        registered_memory_has_device_addresses memory_that_cannot_be_registered_for_kernels
        it_is_given_back_while_a_kernel_uses_it bounds_are_kept many_at_once memory_whose_addresses_are_taken
        it_is_gone_or_another_when_it_is_given_back;
    managed: program_and_kernels_share_it copies_and_fills advice_is_told_again in_batches bad_arguments
        what_is_told_of_it many_small_ones variables;
    arrays: copies_in_and_out copies_are_captured bad_arrays what_is_told_and_what_is_gone;
    textures: textures_of_planes textures_of_boxes textures_in_memory surfaces bad_texels bad_ways_to_read
        what_is_destroyed_is_gone they_go_with_their_context destroyed_while_a_kernel_runs;
    virtual_memory: an_array_that_grows handles_are_counted one_memory_at_two_places bad_arguments
        unmapped_while_a_kernel_runs;
    copies: every_kind edges lengths_beyond_the_last_address memory_that_cannot_be_written fills
        large_ones_from_everywhere batches;
    boxes: planar_between_all_places spatial_between_all_places bad_descriptors
        they_keep_the_order_of_their_stream;
    pools: reuse_follows_the_order_of_streams figures_and_thresholds destroyed_pools_give_their_memory_back
        pools_of_managed_and_of_host_memory;
    streams: what_waits_for_the_legacy_stream work_on_one_stream_is_in_order queries_and_kinds
        more_streams_than_the_service_has each_thread_has_its_own;
    events: waits_across_streams times_and_queries;
    host_functions: order_in_their_stream many_at_once calls_into_the_library_are_refused their_stream_is_destroyed
        across_streams_by_events the_legacy_stream_waits after_a_fault bad_arguments;
    graphs: construction edges_and_cycles every_type_of_node clones updates memory_nodes user_objects
        destroyed_and_foreign_handles drawings what_launches_used_goes_while_another_stream_waits;
    captures: two_streams what_a_program_is_told allocations broken_rules wrong_ends modes the_legacy_stream;
    runtime: kernels_and_variables what_was_not_registered errors_are_noted streams_and_events
        what_is_told_of_a_device threads_have_their_own_device_and_errors binaries_come_and_go
        a_device_is_reset a_device_is_reset_under_other_threads the_library_of_cuda_12
        captured_kernels_are_told_by_their_stubs rows_are_not_copied_during_a_capture
        directions_of_copies_with_arrays a_binary_that_does_not_load_says_why
        a_reset_begins_variables_anew_and_ends_errors_of_all_threads textures_in_the_words_of_both_versions
        a_launch_at_the_end_of_a_thread children_end_while_their_parent_registers;
    occupancy: answers_agree_with_the_formula;
    faults: each_has_its_code_and_stays every_thread_hears_of_it;
    handles: destroyed_ones_name_nothing of_one_kind_are_not_of_another;
    forks: children_are_refused_and_parents_go_on a_child_made_before_init_is_its_own
        registered_memory_is_a_childs_own;
    races: on_every_kind_of_handle on_contexts on_graphs;
}

#[test]
fn a_device_that_counts_cycles_launches_cooperatively_too() {
    for scenario in [
        "cooperative::blocks_meet_in_the_middle",
        "cooperative::blocks_wait_for_each_other",
        "cooperative::the_device_runtime_is_linked",
    ] {
        let timed = ServiceBuilder::new(&[("tenant", 1), ("other", 1)]);
        pass(timed, scenario, "");
    }
}

#[test]
fn memory_over_the_tenants_limit_is_refused() {
    let limited = builder().tenant_key("tenant", "memory_limit_bytes = 67108864");
    let said = pass(limited, "memory::over_the_limit", "");
    let told = said.matches("gridmux: out of device memory").count();
    assert_eq!(told, 1, "{said}");
    assert_names(
        &said,
        &["67108864 bytes of tenant tenant", "memory_limit_bytes"],
    );
}

#[test]
fn managed_and_physical_memory_over_the_tenants_limit_are_refused() {
    for scenario in ["managed::over_the_limit", "virtual_memory::over_the_limit"] {
        let limited = builder().tenant_key("tenant", "memory_limit_bytes = 67108864");
        let said = pass(limited, scenario, "");
        assert_names(
            &said,
            &["out of device memory", "67108864 bytes of tenant tenant"],
        );
    }
}

#[test]
fn kernels_read_past_the_ends_of_allocations_where_the_device_lets_them() {
    pass(
        builder().device_key("lenient_bounds = true"),
        "launches::reads_past_the_end",
        "lenient",
    );
    pass(builder(), "launches::reads_past_the_end", "strict");
}

#[test]
fn sharing_between_processes_is_refused_by_name() {
    let said = pass(builder(), "memory::nothing_is_shared_between_processes", "");
    assert_names(
        &said,
        &[
            "cuIpcGetMemHandle is not covered",
            "not shared between processes",
        ],
    );
    assert_eq!(
        said.matches("not shared between processes").count(),
        8,
        "{said}"
    );
}

#[test]
fn pinned_buffers_beyond_a_clients_limit_are_refused() {
    let said = pass(builder(), "memory::too_many_pinned", "");
    let told = said.matches("255 pinned buffers").count();
    assert_eq!(told, 1, "{said}");
}

#[test]
fn more_contexts_at_work_than_a_client_may_have_streams_are_refused() {
    let said = pass(builder(), "contexts::more_than_the_service_has_streams", "");
    assert_names(&said, &["streams exist"]);
}

#[test]
fn an_endless_kernel_ends_at_its_budget() {
    let impatient = builder().limit("kernel_budget_cpu_seconds", 1);
    let said = pass(
        impatient,
        "faults::an_endless_kernel_ends_at_its_budget",
        "",
    );
    let limit = "limits.kernel_budget_cpu_seconds";
    assert_names(
        &said,
        &["kernel endless was ended", limit, "--kernel-seconds"],
    );
}

#[test]
fn limits_hold_inside_of_graphs() {
    let limited = builder()
        .limit("kernel_budget_cpu_seconds", 1)
        .tenant_key("tenant", "memory_limit_bytes = 67108864");
    let said = pass(limited, "graphs::limits_hold_inside", "");
    assert_names(&said, &["kernel endless was ended", "of tenant tenant"]);
}

#[test]
fn every_node_of_a_graph_is_accounted_for() {
    let service = service();
    Program::start(&service, "tenant", "graphs::construction", "").succeed();
    service.await_gone("tenant");
    let usage = service.tenant("tenant").usage;
    // 41 launches of a graph of four kernels.
    assert!(usage.completed >= 4 * 41, "{usage:?}");
}

#[test]
fn every_symbol_returns_when_it_is_given_nothing() {
    let word = |covered| if covered { "covered" } else { "missing" };
    let mut symbols: Vec<String> = cuda::entry_point::all()
        .map(|entry| format!("{} {}\n", entry.symbol, word(entry.is_covered)))
        .collect();
    symbols.sort();
    let list = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(list.path(), symbols.concat()).expect("the list is written");
    let path = list.path().to_str().expect("a path in UTF-8");
    pass(builder(), "nulls::every_symbol_returns", path);
}
