//! Memory of domains: what is read, written, shared and given back.

use super::{DomainId, Memory, MemoryError};

#[test]
fn many_allocations_are_freed_at_once_and_others_stay() {
    let mut memory = Memory::default();
    let d = memory.create_domain(8 << 30).expect("domain");
    let all: Vec<u64> = (0..1000)
        .map(|_| memory.alloc(d, 300).expect("fits"))
        .collect();
    let (mut freed, kept): (Vec<u64>, Vec<u64>) = all.iter().partition(|address| *address % 3 == 0);
    freed.push(1);
    memory.free_all(d, freed.clone());
    assert_eq!(memory.used_bytes(d), Ok(512 * kept.len() as u64));
    for address in kept {
        memory.free(d, address).expect("it is there");
    }
    assert_eq!(memory.used_bytes(d), Ok(0));
    memory
        .alloc(d, 1 << 30)
        .expect("nothing is left in between");
}

#[test]
fn clearing_leaves_untouched_pages_untouched() {
    let mut memory = Memory::default();
    let d = memory.create_domain(8 << 30).expect("domain");
    let small = memory.alloc(d, 300).expect("fits");
    let large = memory.alloc(d, 4 << 30).expect("fits");
    memory.fill(d, small, 300, 7).expect("inside");
    memory.fill(d, large, 10_000, 7).expect("inside");
    let end = large + (4 << 30);
    memory.fill(d, end - 300, 300, 7).expect("inside");
    memory.clear(d, large, 4 << 30).expect("inside");
    let mut bytes = [1; 10_000];
    memory.read(d, large, &mut bytes).expect("inside");
    assert_eq!(bytes, [0; 10_000]);
    memory
        .read(d, end - 300, &mut bytes[..300])
        .expect("inside");
    assert_eq!(bytes[..300], [0; 300]);
    memory.read(d, small, &mut bytes[..300]).expect("inside");
    assert_eq!(bytes[..300], [7; 300]);
    memory.clear(d, small, 299).expect("inside");
    memory.read(d, small, &mut bytes[..300]).expect("inside");
    assert_eq!((bytes[298], bytes[299]), (0, 7));
    assert!(memory.clear(d, small, 301).is_err());
    let middle = large.next_multiple_of(4096) + (1 << 30);
    let mut resident = [1_u8; 4];
    let host = memory.domain(d).expect("it lives").host_bias();
    let at = host.wrapping_add(usize::try_from(middle).expect("64 bits"));
    // SAFETY: four whole pages of a live mapping, and room for a byte about each.
    let asked = unsafe { libc::mincore(at.cast(), 4 * 4096, resident.as_mut_ptr()) };
    assert_eq!((asked, resident), (0, [0; 4]), "pages in the middle");
}

#[test]
fn allocations_are_aligned_separate_and_accounted() {
    let mut memory = Memory::default();
    let d = memory.create_domain(1 << 20).expect("domain");
    let a = memory.alloc(d, 100).expect("fits");
    let b = memory.alloc(d, 300).expect("fits");
    assert!(a.is_multiple_of(256) && b.is_multiple_of(256) && b >= a + 512);
    assert_eq!(memory.used_bytes(d), Ok(256 + 512));
    memory.write(d, a, &[7; 100]).expect("inside");
    let mut back = [0; 100];
    memory.read(d, a, &mut back).expect("inside");
    assert_eq!(back, [7; 100]);
    memory.free(d, a).expect("live");
    memory.free(d, b).expect("live");
    assert_eq!(memory.used_bytes(d), Ok(0));
}

#[test]
fn large_allocations_begin_at_pages_where_that_is_asked_for_and_fill_a_domain_all_the_same() {
    const MIB: u64 = 1 << 20;
    let mut memory = Memory::default();
    let d = memory.create_domain(64 * MIB).expect("domain");
    memory.alloc(d, 8).expect("fits");
    let plain = memory.alloc(d, MIB).expect("fits");
    assert!(!plain.is_multiple_of(4096), "{plain:#x}");
    memory.begin_large_at_pages();
    let mut all = Vec::new();
    let mut at_pages = 0;
    for _ in 0..60 {
        let small = memory.alloc(d, 8).expect("fits");
        let large = memory.alloc(d, MIB).expect("fits");
        assert!(large.is_multiple_of(64 << 10), "{large:#x}");
        at_pages += u32::from(large.is_multiple_of(2 * MIB));
        all.extend([small, large]);
    }
    assert!(at_pages >= 40, "{at_pages}");
    for address in all {
        memory.free(d, address).expect("live");
    }
    memory.free(d, plain).expect("live");
    memory.alloc(d, 63 * MIB).expect("the gaps are one again");
}

#[test]
fn bad_accesses_name_the_address_and_the_nearest_allocation() {
    let mut memory = Memory::default();
    let d = memory.create_domain(1 << 20).expect("domain");
    let a = memory.alloc(d, 100).expect("fits");
    let error = memory.write(d, a + 96, &[0; 8]).expect_err("too far");
    let text = error.to_string();
    assert!(text.contains(&format!("{:#x}", a + 96)), "{text}");
    assert!(text.contains(&format!("100 bytes at {a:#x}")), "{text}");
    memory.free(d, a).expect("live");
    assert!(matches!(
        memory.free(d, a),
        Err(MemoryError::NotAllocated { .. })
    ));
    assert_eq!(
        memory.alloc(DomainId(9), 1),
        Err(MemoryError::NoDomain(DomainId(9)))
    );
    assert_eq!(memory.alloc(d, 0), Err(MemoryError::ZeroBytes));
    assert!(matches!(
        memory.alloc(d, 2 << 20),
        Err(MemoryError::OutOfMemory { .. })
    ));
}

#[test]
fn windows_are_aligned_and_disjoint() {
    let mut memory = Memory::default();
    let a = memory.create_domain(1 << 20).expect("domain");
    let b = memory.create_domain(20 << 30).expect("domain");
    let c = memory.create_domain(1 << 20).expect("domain");
    let mut windows: Vec<_> = [a, b, c]
        .iter()
        .map(|d| memory.window(*d).expect("exists"))
        .collect();
    windows.sort_unstable();
    for (start, bytes) in &windows {
        assert_eq!(start % bytes, 0);
    }
    for pair in windows.windows(2) {
        assert!(pair[0].0 + pair[0].1 <= pair[1].0);
    }
    let (old, _) = memory.window(a).expect("exists");
    memory.destroy_domain(a).expect("exists");
    let again = memory.create_domain(1 << 20).expect("domain");
    assert_eq!(memory.window(again).expect("exists").0, old);
}

#[test]
fn a_thousand_domains_are_separate_and_counted_together() {
    let mut memory = Memory::default();
    let domains: Vec<_> = (0..1024)
        .map(|_| memory.create_domain(1 << 20).expect("domain"))
        .collect();
    for domain in &domains {
        memory.alloc(*domain, 1000).expect("fits");
    }
    assert_eq!(memory.used_bytes_of_all(), 1024 * 1024);
    let starts: std::collections::BTreeSet<u64> = domains
        .iter()
        .map(|d| memory.window(*d).expect("exists").0)
        .collect();
    assert_eq!(starts.len(), 1024);
    for domain in domains {
        memory.destroy_domain(domain).expect("exists");
    }
    assert_eq!(memory.used_bytes_of_all(), 0);
}

#[test]
fn another_limit_holds_from_now_on_and_takes_nothing_away() {
    const MIB: u64 = 1 << 20;
    let mut memory = Memory::default();
    let [domain, other] = [(); 2].map(|()| memory.create_domain(8 * MIB).expect("fits"));
    let refused = |memory: &mut Memory, domain, bytes| match memory.alloc(domain, bytes) {
        Err(MemoryError::OutOfMemory { used, limit, .. }) => (used, limit),
        outcome => panic!("{outcome:?}"),
    };
    assert_eq!(refused(&mut memory, domain, 16 * MIB), (0, 8 * MIB));
    memory.set_limit(domain, 64 * MIB).expect("it exists");
    let held = memory.alloc(domain, 16 * MIB).expect("the new limit");
    memory.alloc(domain, 48 * MIB).expect("all of it");
    assert_eq!(refused(&mut memory, domain, 1), (64 * MIB, 64 * MIB));
    assert_eq!(refused(&mut memory, other, 16 * MIB), (0, 8 * MIB));
    // What it holds beyond a smaller limit stays, and counts.
    memory.set_limit(domain, 32 * MIB).expect("it exists");
    assert_eq!(memory.used_bytes(domain).expect("exists"), 64 * MIB);
    memory.write(domain, held, &[7]).expect("it is still there");
    assert_eq!(refused(&mut memory, domain, 1), (64 * MIB, 32 * MIB));
    memory.free(domain, held).expect("it is its own");
    assert_eq!(refused(&mut memory, domain, 1), (48 * MIB, 32 * MIB));
    memory.destroy_domain(domain).expect("exists");
    let gone = memory.set_limit(domain, MIB);
    assert!(matches!(gone, Err(MemoryError::NoDomain(_))), "{gone:?}");
}

#[test]
fn roomy_windows_have_addresses_for_all_of_the_memory_many_times_while_windows_are_few() {
    const GIB: u64 = 1 << 30;
    let reservations = |memory: &mut Memory, domain| {
        let reserved = (0..).map_while(|_| {
            let reserved = memory.reserve_addresses(domain, 9 * GIB / 2, 2 << 20);
            reserved.ok()
        });
        reserved.count()
    };
    let mut memory = Memory::default();
    let plain = memory.create_domain(4 * GIB).expect("domain");
    assert_eq!(reservations(&mut memory, plain), 3);
    memory.make_windows_roomy();
    let roomy = memory.create_domain(4 * GIB).expect("domain");
    assert_eq!(reservations(&mut memory, roomy), 14);
    let large: Vec<DomainId> = (0..6)
        .map(|_| memory.create_domain(256 * GIB).expect("domain"))
        .collect();
    let sizes: Vec<u64> = large
        .iter()
        .map(|domain| memory.window(*domain).expect("it exists").1 / GIB)
        .collect();
    assert_eq!(sizes, [4096, 4096, 4096, 1024, 1024, 1024]);
}
