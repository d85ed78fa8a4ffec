//! The typed view of small modules, checked value by value.

use gridmux_ptx::Module;
use gridmux_ptx::decode::{
    AddressBase, AtomOp, BoolOp, CacheOp, Comparison, FuncId, Instruction, MemoryOrder, Mode,
    Opcode, Operand, Part, Program, RegId, RelocationTarget, Rounding, ScalarType, Scope,
    SpecialReg, StateSpace, Symbol, VarId,
};

const VECTOR_ADD: &str = include_str!("vector_add.ptx");

fn decode(text: &str) -> Program {
    let module = Module::parse(text).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(module.print(), text.as_bytes());
    module.decode().unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn header_parameters_and_bounds() {
    let program = decode(VECTOR_ADD);
    assert_eq!(program.version, (8, 0));
    assert_eq!(program.target, "sm_80");
    assert_eq!(program.address_size, 64);
    let (_, f) = program.kernel("_Z3addPfS_S_i").unwrap();
    let offsets: Vec<_> = f
        .params
        .iter()
        .map(|p| (p.offset, p.size_bytes, p.align))
        .collect();
    assert_eq!(offsets, [(0, 8, 8), (8, 8, 8), (16, 8, 8), (24, 4, 4)]);
    assert_eq!(f.params_bytes, 28);
    assert_eq!(f.bounds.max_threads, Some([256, 1, 1]));
    assert_eq!(f.bounds.min_blocks_per_sm, Some(2));
    assert_eq!(program.variables[0].size_bytes, 1024);
    assert_eq!(program.variables[0].space, StateSpace::Shared);
}

#[test]
fn instructions_of_a_vector_add() {
    let program = decode(VECTOR_ADD);
    let f = &program.functions[0];
    assert!(
        f.body.iter().all(|i| i.opcode != Opcode::Other),
        "{:?}",
        f.body
    );
    assert_eq!(f.body.len(), 23);
    assert_eq!(
        f.body[4].operands[1],
        Operand::Special(SpecialReg::Ctaid(0))
    );
    assert_eq!(f.body[8].mods.comparison, Some(Comparison::Ge));
    assert_eq!(f.body[9].operands[0], Operand::Target(22));
    let guard = f.body[9].guard.unwrap();
    assert!(!guard.negated);
    assert_eq!(&f.register_names[guard.reg.0 as usize], "%p1");
    assert_eq!(f.registers[guard.reg.0 as usize], ScalarType::Pred);
    assert_eq!(
        f.body[0].operands[1],
        Operand::Address {
            base: AddressBase::Symbol(Symbol::Param(0)),
            offset: 0
        }
    );
    assert!(matches!(
        f.body[20].operands[0],
        Operand::Address {
            base: AddressBase::Reg(RegId(_)),
            offset: -4
        }
    ));
    assert_eq!(f.body[17].operands[2], Operand::F32(0x3f80_0000));
    assert!(f.body[21].mods.sync);
}

/// Decodes one statement in a kernel that declares a register of every kind.
fn one(statement: &str) -> Instruction {
    let text = format!(
        ".version 8.5\n.target sm_90\n.address_size 64\n.global .texref tex_a;\n.shared .b64 bar;\n\
         .entry k (.param .u64 a)\n{{\n\
         .reg .pred %p<9>;\n.reg .b16 %h<9>;\n.reg .b32 %r<40>;\n.reg .b64 %rd<9>;\n.reg .f32 %f<40>;\n\
         .reg .f64 %fd<9>;\n{statement}\n}}\n"
    );
    let program = decode(&text);
    program.functions[0].body[0].clone()
}

#[test]
fn opcodes_with_several_words() {
    let cases = [
        ("bar.sync 0;", Opcode::Bar),
        ("barrier.cta.sync.aligned 0, 64;", Opcode::Bar),
        ("barrier.sync 1;", Opcode::Bar),
        ("bar.warp.sync -1;", Opcode::BarWarpSync),
        ("bar.arrive 1, 64;", Opcode::BarArrive),
        ("bar.red.popc.u32 %r1, 0, %p1;", Opcode::BarRed),
        ("barrier.cluster.arrive;", Opcode::BarrierClusterArrive),
        ("add.cc.u32 %r1, %r2, %r3;", Opcode::AddCc),
        ("addc.u32 %r1, %r2, %r3;", Opcode::Addc),
        ("mad.lo.cc.u32 %r1, %r2, %r3, %r4;", Opcode::MadCc),
        (
            "cvt.pack.sat.s8.s32.b32 %r1, %r2, %r3, %r4;",
            Opcode::CvtPack,
        ),
        (
            "cp.async.cg.shared.global [bar], [%rd1], 16;",
            Opcode::CpAsync,
        ),
        ("cp.async.commit_group;", Opcode::CpAsyncCommitGroup),
        ("cp.async.wait_group 1;", Opcode::CpAsyncWaitGroup),
        (
            "cp.async.bulk.commit_group;",
            Opcode::CpAsyncBulkCommitGroup,
        ),
        ("mbarrier.init.shared.b64 [bar], 1;", Opcode::MbarrierInit),
        (
            "mbarrier.arrive.shared.b64 %rd1, [bar];",
            Opcode::MbarrierArrive,
        ),
        (
            "mbarrier.try_wait.parity.shared.b64 %p1, [bar], %r1;",
            Opcode::MbarrierTryWait,
        ),
        ("fence.proxy.async;", Opcode::FenceProxy),
        ("fence.acq_rel.gpu;", Opcode::Fence),
        ("wgmma.fence.sync.aligned;", Opcode::WgmmaFence),
    ];
    for (text, opcode) in cases {
        assert_eq!(one(text).opcode, opcode, "{text}");
    }
}

#[test]
fn modifiers_land_in_their_fields() {
    let i = one("cvt.rni.ftz.sat.u8.f32 %h1, %f1;");
    assert_eq!(i.mods.types.as_slice(), [ScalarType::U8, ScalarType::F32]);
    assert!(i.mods.rounding == Some(Rounding::Rni) && i.mods.ftz && i.mods.sat);
    let i = one("setp.lo.or.u32 %p1|%p2, %r1, %r2, !%p3;");
    assert_eq!(
        (i.mods.comparison, i.mods.bool_op, i.mods.part),
        (Some(Comparison::Lo), Some(BoolOp::Or), None)
    );
    assert!(matches!(i.operands[0], Operand::RegPair(Some(_), Some(_))));
    assert!(matches!(i.operands[3], Operand::NotReg(_)));
    let i = one("mul.wide.u32 %rd1, %r1, 8;");
    assert_eq!(i.mods.part, Some(Part::Wide));
    let i = one("ld.global.nc.L1::no_allocate.v4.f32 {%f1, %f2, %f3, _}, [%rd1+16];");
    assert_eq!((i.mods.vector, i.mods.cache), (4, Some(CacheOp::Nc)));
    assert_eq!(i.mods.rest.as_slice(), ["L1::no_allocate"]);
    assert!(matches!(&i.operands[0], Operand::Vector(v) if v.len() == 4 && v[3] == Operand::Sink));
    let i = one("atom.acq_rel.gpu.global.add.u32 %r1, [%rd1], 5;");
    assert_eq!(
        (i.mods.order, i.mods.scope, i.mods.atom),
        (
            Some(MemoryOrder::AcqRel),
            Some(Scope::Gpu),
            Some(AtomOp::Add)
        )
    );
    let i = one("shfl.sync.bfly.b32 %r1|%p1, %r2, 1, 31, -1;");
    assert_eq!((i.mods.mode, i.mods.sync), (Some(Mode::Bfly), true));
    assert_eq!(i.operands[4], Operand::Int(-1));
    let i = one("vote.sync.uni.pred %p1, %p2, 0xffffffff;");
    assert_eq!(i.mods.mode, Some(Mode::Uni));
    let i = one("cvta.to.shared.u64 %rd1, %rd2;");
    assert!(i.mods.to && i.mods.spaces.as_slice() == [StateSpace::Shared]);
    let i = one(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1,%f2,%f3,%f4}, {%r1,%r2,%r3,%r4}, {%r5,%r6}, \
         {%f5,%f6,%f7,%f8};",
    );
    assert_eq!(i.mods.rest.as_slice(), ["m16n8k16", "row", "col"]);
    let i = one("tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [tex_a, {%f5, %f6}];");
    assert!(matches!(&i.operands[1], Operand::TexAddress(t) if t.coordinates.len() == 2));
}

#[test]
fn literals_have_the_type_of_their_instruction() {
    assert_eq!(
        one("mov.f32 %f1, 1.5;").operands[1],
        Operand::F32(1.5_f32.to_bits())
    );
    assert_eq!(
        one("mov.f32 %f1, 0fBF800000;").operands[1],
        Operand::F32(0xbf80_0000)
    );
    assert_eq!(
        one("mov.f64 %fd1, -2.5e-1;").operands[1],
        Operand::F64((-0.25_f64).to_bits())
    );
    assert_eq!(one("mov.u32 %r1, 0b101;").operands[1], Operand::Int(5));
    assert_eq!(one("mov.u32 %r1, 017U;").operands[1], Operand::Int(15));
    assert_eq!(
        one("mov.u32 %r1, (1 << 4) + WARP_SZ * 2;").operands[1],
        Operand::Int(80)
    );
    assert_eq!(
        one("mov.u64 %rd1, 0xffffffffffffffff;").operands[1],
        Operand::Int(-1)
    );
}

#[test]
fn scopes_shadow_and_registers_keep_their_identity() {
    let program = decode(
        ".version 8.0\n.target sm_80\n.entry k ()\n{\n.reg .b32 %r<3>;\n{ mov.u32 %r1, 1; }\nmov.u32 %r1, 2;\n\
         { .reg .b64 %r<9>; mov.u64 %r1, 3; mov.u64 %r8, 4; }\nmov.u32 %r1, 5;\n}\n",
    );
    let f = &program.functions[0];
    let destination = |n: usize| match f.body[n].operands[0] {
        Operand::Reg(r) => r,
        _ => panic!("a register"),
    };
    assert_eq!(destination(0), destination(1));
    assert_eq!(destination(1), destination(4));
    assert_ne!(destination(1), destination(2));
    assert_eq!(f.registers[destination(2).0 as usize], ScalarType::B64);
    assert_eq!(f.registers.len(), 3);
}

#[test]
fn labels_resolve_to_the_innermost_scope_even_forwards() {
    let program = decode(
        ".version 8.0\n.target sm_80\n.entry k ()\n{\n.reg .pred p;\nA: bra A;\n{ bra A; bra B; A: ret; }\n\
         B: @p bra C;\n\
         t: .branchtargets A, B, C;\n.reg .b32 i;\nbrx.idx i, t;\nC:\n}\n",
    );
    let f = &program.functions[0];
    let targets: Vec<_> = f
        .body
        .iter()
        .filter_map(|i| i.operands.first())
        .cloned()
        .collect();
    assert_eq!(
        targets[..3],
        [Operand::Target(0), Operand::Target(3), Operand::Target(4)]
    );
    // A label at the end of the body is one past its last instruction.
    assert_eq!(f.body[4].operands[0], Operand::Target(6));
    assert_eq!(f.body[5].operands[1], Operand::BranchTable(0));
    assert_eq!(f.branch_tables, [[0, 4, 6]]);
}

#[test]
fn calls_have_results_callee_arguments_prototype() {
    let program = decode(
        ".version 8.0\n.target sm_80\n.extern .func (.param .b32 r) g (.param .b64 a);\n.func h ();\n.entry k ()\n\
         {\n.reg .b64 %rd<2>;\n\
         .param .b32 r; .param .b64 a;\ncall (r), g, (a);\ncall.uni h;\n\
         proto: .callprototype (.param .b32 _) _ (.param .b64 _);\n\
         call (r), %rd1, (a), proto;\n}\n.func h () { ret; }\n",
    );
    let (_, k) = program.kernel("k").expect("it is there");
    let callee = |n: usize| k.body[n].operands[1].clone();
    assert_eq!(
        callee(0),
        Operand::Symbol {
            symbol: Symbol::Function(FuncId(0)),
            offset: 0
        }
    );
    assert_eq!(
        callee(1),
        Operand::Symbol {
            symbol: Symbol::Function(FuncId(1)),
            offset: 0
        }
    );
    assert_eq!(k.body[1].operands[0], Operand::Arguments(Box::default()));
    assert_eq!(k.body[1].operands[2], Operand::Arguments(Box::default()));
    assert_eq!(k.body[2].operands[3], Operand::Prototype(0));
    assert_eq!(k.call_prototypes[0].params[0].size_bytes, 8);
    assert_eq!(k.call_params, [VarId(0), VarId(1)]);
    assert!(program.functions[1].is_defined && program.functions.len() == 3);
}

#[test]
fn initialisers_become_bytes_and_relocations() {
    let program = decode(
        ".version 8.0\n.target sm_80\n.func f () { ret; }\n.global .align 8 .b8 data[6] = {1, 0xff, -1, (2 + 3) * 4};\n\
         .const .f32 rows[2][3] = {{1.0}, {0f40000000, 3.0}};\n\
         .global .u64 pointers[3] = {generic(data)+2, f, data+4};\n\
         .global .b8 bytes[2] = {0xFF(data), 0xFF00(data)};\n.global .u16 open[] = {7, 8};\n\
         .global .v2 .u32 pair = {1, 2};\n",
    );
    let init = |n: usize| {
        program.variables[n]
            .init
            .clone()
            .expect("it is initialised")
    };
    assert_eq!(init(0), [1, 255, 255, 20, 0, 0]);
    assert_eq!(program.variables[0].align, 8);
    let floats: Vec<f32> = init(1)
        .chunks(4)
        .map(|b| f32::from_le_bytes(b.try_into().expect("four bytes")))
        .collect();
    assert_eq!(floats, [1.0, 0.0, 0.0, 2.0, 3.0, 0.0]);
    let r = &program.variables[2].relocations;
    assert_eq!(
        (r[0].offset, r[0].addend, r[0].generic, &r[0].target),
        (0, 2, true, &RelocationTarget::Variable(VarId(0)))
    );
    assert_eq!(
        (r[1].offset, &r[1].target),
        (8, &RelocationTarget::Function(FuncId(0)))
    );
    assert_eq!((r[2].offset, r[2].addend, r[2].generic), (16, 4, false));
    let r = &program.variables[3].relocations;
    assert_eq!((r[0].shift_bits, r[1].shift_bits, r[1].width), (0, 8, 1));
    assert_eq!(
        (init(4), program.variables[4].size_bytes),
        (vec![7, 0, 8, 0], 4)
    );
    assert_eq!(init(5), [1, 0, 0, 0, 2, 0, 0, 0]);
}

#[test]
fn vector_registers_are_registers_side_by_side() {
    let program = decode(
        ".version 8.0\n.target sm_80\n.global .f32 g[4];\n.entry k ()\n{\n.reg .v2 .b32 v<3>;\n.reg .b32 s;\n\
         mov.b32 s, v1.y;\nst.global.v2.b32 [g], v1;\n}\n",
    );
    let f = &program.functions[0];
    let Operand::Reg(RegId(y)) = f.body[0].operands[1] else {
        panic!("{:?}", f.body[0])
    };
    let pair = [y - 1, y].map(|n| Operand::Reg(RegId(n)));
    assert_eq!(f.body[1].operands[1], Operand::Vector(pair.into()));
    assert_eq!(&f.register_names[y as usize], "v1.y");
}

/// A name means its innermost declaration, whether that is the name's own or a range's.
#[test]
fn a_range_hides_a_name_of_an_outer_scope() {
    let text = ".version 8.0\n.target sm_80\n.address_size 64\n.func a3() { ret; }\n.global .b32 a1;\n\
        .entry k() { .reg .b32 a<4>; { .reg .b64 a2; mov.b64 a2, 7; } mov.u32 a3, 1; add.u32 a1, a3, a2; }\n\
        .entry a0() { .reg .b32 a<1>; mov.u32 a0, 1; }\n";
    let program = Module::parse(text)
        .and_then(|m| m.decode())
        .expect("it decodes");
    let k = &program.functions[1];
    let sum: Vec<Operand> = k.body[2].operands.clone();
    assert!(sum.iter().all(|o| matches!(o, Operand::Reg(_))), "{sum:?}");
    assert_eq!(k.body[1].operands[0], sum[1]);
    assert!(matches!(
        program.functions[2].body[0].operands[0],
        Operand::Reg(_)
    ));
}

/// The values are those that `ptxas` (13.5) puts into the initial data of a variable.
#[test]
fn constant_expressions_have_the_values_of_ptxas() {
    const INTEGERS: &[(&str, i64)] = &[
        ("-5 % 3", 2),
        ("-5 / 3", -1),
        ("(.u64)-1 >> 1", i64::MAX),
        ("-1 >> 1", -1),
        ("0xFFFFFFFFFFFFFFFF >> 1", i64::MAX),
        ("-1 < 1U", 0),
        ("~0 >> 1", i64::MAX),
        ("(.s64)0xFFFFFFFFFFFFFFFF / 2", 0),
        ("0xFFFFFFFFFFFFFFFF / 2", i64::MAX),
        ("-(5U) / 2", 9_223_372_036_854_775_805),
        ("1 << 65", 2),
        ("(-1 | 0) >> 1", -1),
        ("(1 ? -4 : 1U) / 2", -2),
        ("0x1FFFFFFFFFFFFFFFF", -1),
        ("18446744073709551616", 0),
        ("1 - 2U < 0", 0),
        ("-7 % -4", -7),
        ("7 >> -1", 0),
        ("-9 >> 70", -1),
        ("2 && 0 || 3", 1),
    ];
    const FLOATS: &[(&str, f64)] = &[
        ("1.5+2.0", 3.5),
        ("(1.5)/-2.0-1.0", -1.75),
        ("+.5e-3", 0.5e-3),
        ("1.e3*2.0", 2000.0),
    ];
    let value = |ty: &str, text: &str| {
        let source = format!(".version 8.5\n.target sm_90\n.global .{ty} g = {text};\n");
        let program = Module::parse(source).and_then(|m| m.decode());
        let program = program.unwrap_or_else(|e| panic!("{text}\n{e}"));
        let bytes = program.variables[0].init.clone().expect("it has a value");
        u64::from_le_bytes(bytes.try_into().expect("eight bytes"))
    };
    for (text, expected) in INTEGERS {
        assert_eq!(value("s64", text).cast_signed(), *expected, "{text}");
    }
    for (text, expected) in FLOATS {
        assert_eq!(f64::from_bits(value("f64", text)), *expected, "{text}");
    }
}
