//! What is known of each opcode: how many registers it writes, and how many bytes it reaches.
//!
//! Rule: an opcode that is not listed may write any register.

/// Opcodes that write no register, also where their first operand is one.
const WRITE_NOTHING: [&str; 43] = [
    "ACQBULK",
    "ARRIVES",
    "BAR",
    "BPT",
    "BRA",
    "BREAK",
    "BRX",
    "BRXU",
    "BSSY",
    "BSYNC",
    "CALL",
    "CCTL",
    "CCTLL",
    "CCTLT",
    "DEPBAR",
    "ENDCOLLECTIVE",
    "ERRBAR",
    "EXIT",
    "FENCE",
    "JMP",
    "JMX",
    "JMXU",
    "KILL",
    "LDGDEPBAR",
    "LDGSTS",
    "MEMBAR",
    "NANOSLEEP",
    "NOP",
    "PLOP3",
    "PMTRIG",
    "R2P",
    "R2UP",
    "RED",
    "REDG",
    "RET",
    "ST",
    "STG",
    "STL",
    "STS",
    "STSM",
    "UPLOP3",
    "WARPSYNC",
    "YIELD",
];
/// Opcodes that write one register, two where a modifier ends in `64`.
const ONE: [&str; 59] = [
    "B2R",
    "BMOV",
    "BREV",
    "F2FP",
    "F2IP",
    "FADD",
    "FFMA",
    "FLO",
    "FMNMX",
    "FMUL",
    "FSEL",
    "FSET",
    "FSWZADD",
    "HADD2",
    "HFMA2",
    "HMNMX2",
    "HMUL2",
    "HSET2",
    "I2FP",
    "I2IP",
    "IABS",
    "IADD3",
    "IDP",
    "IMNMX",
    "LEA",
    "LOP3",
    "MATCH",
    "MOV",
    "MOVM",
    "MUFU",
    "P2R",
    "POPC",
    "PRMT",
    "QSPC",
    "R2UR",
    "REDUX",
    "S2R",
    "S2UR",
    "SEL",
    "SGXT",
    "SHFL",
    "UBMSK",
    "UFLO",
    "UIADD3",
    "ULEA",
    "ULOP3",
    "UMOV",
    "UPOPC",
    "UPRMT",
    "USEL",
    "USGXT",
    "VABSDIFF",
    "VABSDIFF4",
    "VIADD",
    "VIADDMNMX",
    "VIMNMX",
    "VIMNMX3",
    "VOTE",
    "VOTEU",
];
/// Opcodes of memory and conversions, which write as many as their modifiers say.
const SIZED: [&str; 13] = [
    "ATOM", "ATOMG", "ATOMS", "F2F", "F2I", "FRND", "I2F", "LD", "LDC", "LDG", "LDL", "LDS", "ULDC",
];

/// Returns how many registers an instruction writes from its first one on; `None` where that is not known.
pub(super) fn width(opcode: &str) -> Option<usize> {
    let words: Vec<&str> = opcode.split('.').collect();
    let name = words[0];
    let has = |word: &str| words[1..].contains(&word);
    let double = 1 + usize::from(words[1..].iter().any(|w| w.ends_with("64")));
    // Comparisons write predicates alone.
    let compares = name.ends_with("SETP") || matches!(name, "FCHK" | "HSETP2");
    if compares || WRITE_NOTHING.contains(&name) {
        return Some(0);
    }
    match name {
        // Their `64` is what they read.
        "SHF" | "USHF" => Some(1),
        "IMAD" | "UIMAD" => Some(1 + usize::from(has("WIDE"))),
        "DADD" | "DFMA" | "DMUL" | "DMNMX" | "LEPC" => Some(2),
        "CS2R" => Some(2 - usize::from(has("32"))),
        "HMMA" | "IMMA" | "BMMA" => Some(4),
        "DMMA" => Some(8),
        "LDSM" if matches!(words.last(), Some(&("M88" | "MT88"))) => Some(1),
        "LDSM" => words.last().and_then(|w| w.parse().ok()),
        _ if ONE.contains(&name) => Some(double),
        _ if SIZED.contains(&name) && has("256") => None,
        _ if SIZED.contains(&name) && has("128") => Some(4),
        _ if SIZED.contains(&name) => Some(double),
        _ => None,
    }
}

/// Returns how many bytes of memory an instruction reaches at most.
pub(super) fn bytes(opcode: &str) -> i64 {
    opcode
        .split('.')
        .skip(1)
        .map(size)
        .max()
        .unwrap_or(0)
        .max(match is_narrow(opcode) {
            true => 2,
            false => 4,
        })
}

/// Returns the bytes that a modifier speaks of; 0 where it speaks of none.
fn size(modifier: &str) -> i64 {
    // `LTC128B` is how much the cache fetches.
    if modifier.starts_with("LTC") {
        return 0;
    }
    let digits = |text: &str| -> Option<i64> {
        let at = text.find(|c: char| c.is_ascii_digit())?;
        text[at..].parse().ok()
    };
    // `F16x2`, `F32x4`.
    let bits = match modifier.split_once('x') {
        Some((one, count)) => digits(one).zip(digits(count)).map(|(a, b)| a * b),
        None => digits(modifier),
    };
    bits.filter(|n| matches!(n, 8..=256)).map_or(0, |n| n / 8)
}

/// Returns whether an instruction moves less than a register.
pub(super) fn is_narrow(opcode: &str) -> bool {
    let narrow = ["U8", "S8", "U16", "S16"];
    opcode.split('.').any(|word| narrow.contains(&word))
}
