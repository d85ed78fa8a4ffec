use gridmux_ptx::Module; use gridmux_ptx::analysis::registers_estimate; use gridmux_ptx::forms::*;
#[test] fn zz(){ for n in ["vecadd","matmul","black_scholes","stencil3d","reduction","spmv","fma_loop","pointer_chase"]{
 let b=std::fs::read(format!("../workloads/ptx/{n}.ptx")).unwrap(); let m=Module::parse(b).unwrap(); let p=m.decode().unwrap();
 let r=rewrite(&m,&p,&Options::default(),|_|Form::WORKER); let m2=Module::parse(r.bytes.clone()).unwrap(); let p2=m2.decode().unwrap();
 if std::env::var("ZZ").as_deref()==Ok(n) { println!("{}", String::from_utf8(r.bytes).unwrap()); }
 println!("{n}: {} -> {}  most {}", registers_estimate(&p.functions[0]), registers_estimate(&p2.functions[0]), r.kernels[0].most_chunk);
}}
