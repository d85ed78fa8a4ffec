//! Modifiers that an opcode cannot do without, and modifiers that stand right behind it (PTX ISA section 9.7).
//!
//! A group is words with `|` between them, of which a mnemonic has exactly one. `^` before a group: the word stands
//! right behind the opcode. `?` behind that: there may be none; `!`: there is none. The verdicts follow `ptxas`, as
//! those of [`super::conform`] do; an opcode that is not here needs what [`super::mnemonic`] says, or nothing.
//!
//! Wide: an opcode is one row.

use super::Opcode;
use super::Opcode as O;
use super::mnemonic::DOUBLED;

#[rustfmt::skip]
static NEEDS: &[(&[Opcode], &str)] = &[
    (&[O::Mul, O::Mad, O::Div], "^?hi|lo|wide|full"),
    (&[O::MadCc, O::Madc, O::Mul24, O::Mad24, O::Dp2a], "^hi|lo"),
    (&[O::Shf], "^l|r clamp|wrap"),
    (&[O::Bmsk, O::Szext, O::Vshl, O::Vshr], "clamp|wrap"),
    (&[O::Vset, O::Vset2, O::Vset4], "eq|ne|lt|le|gt|ge"),
    (&[O::Redux, O::Elect], "sync"),
    (&[O::Match], "all|any sync"),
    (&[O::MovMatrix], "sync aligned m8n8 trans"),
    (&[O::LdMatrix], "sync aligned m8n8|m16n16|m8n16 x1|x2|x4"),
    (&[O::StMatrix], "sync aligned m8n8|m16n8 x1|x2|x4"),
    (&[O::Prefetchu], "L1"),
    (&[O::Prefetch], "L1|L2|L2::evict_last|L2::evict_normal"),
    (&[O::Discard], "L2"),
    (&[O::Applypriority], "L2::evict_normal"),
    (&[O::Createpolicy], "^fractional|range|cvt"),
    (&[O::CpAsync], "ca|cg shared|shared::cta global"),
    (&[O::CpAsyncBulkTensor, O::CpReduceAsyncBulkTensor], "1d|2d|3d|4d|5d mbarrier::complete_tx::bytes|bulk_group"),
    (&[O::CpAsyncBulkPrefetchTensor], "1d|2d|3d|4d|5d L2"),
    (&[O::CpAsyncBulkPrefetch], "L2"),
    (&[O::CpReduceAsyncBulk, O::CpReduceAsyncBulkTensor], "and|or|xor|add|inc|dec|min|max"),
    (&[O::CpAsyncBulk, O::CpReduceAsyncBulk], "mbarrier::complete_tx::bytes|bulk_group"),
    (&[O::CpAsyncBulk], "!tensor|tile|im2col|1d|2d|3d|4d|5d"),
    (&[O::CpAsyncBulk, O::CpAsyncBulkTensor], "!and|or|xor|add|inc|dec|min|max"),
    (&[O::TensormapReplace], "tile b1024"),
    (&[O::TensormapReplace], "global_address|rank|box_dim|global_dim|global_stride|element_stride|elemtype|interleave_layout|swizzle_mode|swizzle_atomicity|fill_mode"),
    (&[O::TensormapCpFenceproxy], "global shared|shared::cta tensormap::generic release sync aligned cta|cluster|gpu|sys"),
    (&[O::MultimemLdReduce, O::MultimemRed], "and|or|xor|add|min|max"),
    (&[O::Tex], "^?base|level|grad"),
    (&[O::Tex], "v2|v4"),
    (&[O::Tex], "1d|2d|3d|a1d|a2d|cube|acube|2dms|a2dms|1d_buffer"),
    (&[O::Tld4], "r|g|b|a 2d|a2d|cube|acube v4"),
    (&[O::Txq], "^?level"),
    (&[O::Txq], "width|height|depth|channel_data_type|channel_order|normalized_coords|force_unnormalized_coords|filter_mode|addr_mode_0|addr_mode_1|addr_mode_2|array_size|num_mipmap_levels|num_samples"),
    (&[O::Suq], "width|height|depth|channel_data_type|channel_order|array_size|memory_layout"),
    (&[O::Suld, O::Sust, O::Sured], "^b|p 1d|2d|3d|a1d|a2d trap|clamp|zero"),
    (&[O::Sured], "add|min|max|and|or"),
    (&[O::Fence], "?sync_restrict::shared::cta|sync_restrict::shared::cluster"),
    (&[O::FenceProxy], "alias|async|async::generic|tensormap::generic"),
    (&[O::FenceMbarrierInit], "release cluster"),
    (&[O::RedAsync], "and|or|xor|add|inc|dec|min|max"),
    (&[O::Setmaxnreg], "^inc|dec sync aligned"),
    (&[O::Griddepcontrol], "launch_dependents|wait"),
    (&[O::MbarrierTestWait, O::MbarrierTryWait], "^?parity"),
    (&[O::MbarrierArrive, O::MbarrierArriveDrop], "^?expect_tx"),
    (&[O::ClusterlaunchcontrolTryCancel], "^async mbarrier::complete_tx::bytes"),
    (&[O::WmmaLoad], "^a|b|c sync aligned row|col"),
    (&[O::WmmaStore], "^d sync aligned row|col"),
    (&[O::WmmaMma, O::Mma, O::MmaSp, O::MmaBlockScale, O::WgmmaMmaAsync], "sync aligned"),
    (&[O::Tcgen05Alloc, O::Tcgen05Dealloc, O::Tcgen05RelinquishAllocPermit], "cta_group::1|cta_group::2 sync aligned"),
    (&[O::Tcgen05Ld, O::Tcgen05LdRed, O::Tcgen05St], "sync aligned x1|x2|x4|x8|x16|x32|x64|x128"),
    (&[O::Tcgen05Ld, O::Tcgen05LdRed, O::Tcgen05St], "16x64b|16x128b|16x256b|32x32b|16x32bx2"),
    (&[O::Tcgen05Wait], "sync aligned"),
    (&[O::Tcgen05Cp], "cta_group::1|cta_group::2 128x256b|4x256b|128x128b|64x128b|32x128b"),
    (&[O::Tcgen05Shift], "cta_group::1|cta_group::2 down"),
    (&[O::Tcgen05Mma], "cta_group::1|cta_group::2"),
    (&[O::Tcgen05Commit], "cta_group::1|cta_group::2 mbarrier::arrive::one"),
];

/// Returns what is wrong with the words behind an opcode, and with which of them (counted from the first one behind it;
/// their count when one is missing).
pub(super) fn check(opcode: Opcode, words: &[&str]) -> Result<(), (usize, String)> {
    let lists = NEEDS
        .iter()
        .filter(|(opcodes, _)| opcodes.contains(&opcode));
    for group in lists.flat_map(|(_, list)| list.split(' ')) {
        let (leads, rest) = match group.strip_prefix('^') {
            Some(rest) => (true, rest),
            None => (false, group),
        };
        let (is_optional, alternatives) = match rest.strip_prefix('?') {
            Some(rest) => (true, rest),
            None => (false, rest),
        };
        let (is_foreign, alternatives) = match alternatives.strip_prefix('!') {
            Some(rest) => (true, rest),
            None => (false, alternatives),
        };
        let fits = |word: &&str| alternatives.split('|').any(|a| a == *word);
        let mut places = (0..words.len()).filter(|&n| fits(&words[n]));
        match (places.next(), places.next()) {
            (Some(n), _) if is_foreign => {
                let message = format!("`.{}` is not for this instruction", words[n]);
                return Err((n, message));
            }
            (None, _) if is_optional || is_foreign => {}
            (None, _) => {
                let message = match alternatives.split_once('|') {
                    Some((first, _)) => format!("a modifier such as `.{first}` is missing"),
                    None => format!("`.{alternatives}` is missing"),
                };
                return Err((words.len(), message));
            }
            (Some(n), _) if leads && n > 0 => {
                return Err((n, format!("`.{}` stands right behind the opcode", words[n])));
            }
            (Some(_), Some(n)) if !DOUBLED.contains(&words[n]) => {
                return Err((n, format!("`.{}` contradicts another modifier", words[n])));
            }
            _ => {}
        }
    }
    Ok(())
}
