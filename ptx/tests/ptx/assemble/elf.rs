//! The little of the ELF format (System V ABI, chapter 4) that tells how many instructions a kernel has in a cubin.

/// Bytes of one machine instruction on every architecture from sm_70 on.
pub(super) const INSTRUCTION_BYTES: usize = 16;

/// The low twelve bits of a machine instruction are its opcode; this one does nothing and fills the end of a section.
const NOP: u16 = 0x918;

/// Returns each kernel's name with its machine code, the padding at the end left out.
pub(super) fn code(cubin: &[u8]) -> Vec<(String, &[u8])> {
    sections(cubin).unwrap_or_default()
}

fn sections(cubin: &[u8]) -> Option<Vec<(String, &[u8])>> {
    let headers = usize::try_from(u64_at(cubin, 0x28)?).ok()?;
    let (size, count, names) = (
        u16_at(cubin, 0x3a)?,
        u16_at(cubin, 0x3c)?,
        u16_at(cubin, 0x3e)?,
    );
    let header = |n: u16| headers + usize::from(n) * usize::from(size);
    let body = |at: usize| -> Option<&[u8]> {
        let start = usize::try_from(u64_at(cubin, at + 24)?).ok()?;
        let length = usize::try_from(u64_at(cubin, at + 32)?).ok()?;
        cubin.get(start..start.checked_add(length)?)
    };
    let names = body(header(names))?;
    let mut found = Vec::new();
    for n in 0..count {
        let at = header(n);
        let name = usize::try_from(u32_at(cubin, at)?).ok()?;
        let name = names.get(name..)?.split(|byte| *byte == 0).next()?;
        let name = String::from_utf8_lossy(name);
        if let Some(kernel) = name.strip_prefix(".text.") {
            found.push((kernel.to_owned(), used(body(at)?)));
        }
    }
    Some(found)
}

fn used(code: &[u8]) -> &[u8] {
    let instructions = code.chunks_exact(INSTRUCTION_BYTES);
    let last = instructions
        .map(|i| u16::from_le_bytes([i[0], i[1]]) & 0xfff)
        .rposition(|opcode| opcode != NOP);
    &code[..last.map_or(0, |n| (n + 1) * INSTRUCTION_BYTES)]
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}
