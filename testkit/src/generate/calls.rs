//! Functions and calls of them, direct and through an address.
//!
//! Every function takes two integers and the input's address and returns an integer, so that any can stand for any
//! other behind one prototype.

use super::maker::{Body, Maker};
use super::text::{Kind, Text, emit};

/// A function that was written.
#[derive(Debug, Clone)]
pub(super) struct Callee {
    name: String,
}

impl Maker {
    /// Writes up to three functions in front of the kernel.
    pub(super) fn make_functions(&mut self) {
        if !self.body.text.chance(40) {
            return;
        }
        for n in 0..self.body.text.between(1, 3) {
            let name = format!("function_{n}");
            self.make_function(&name);
            self.functions.push(Callee { name });
        }
    }

    fn make_function(&mut self, name: &str) {
        let dice = gridmux_workloads::Prng::new(self.body.text.dice.next_u64());
        let mut body = Body::new(Text::new(dice, name));
        let t = &mut body.text;
        let a = t.set(Kind::B32, "ld.param.u32", &format!("[{name}_a]"));
        let b = t.set(Kind::B32, "ld.param.u32", &format!("[{name}_b]"));
        let input = t.set(Kind::B64, "ld.param.u64", &format!("[{name}_in]"));
        body.input = t.set(Kind::B64, "cvta.to.global.u64", &input);
        let reads_grid = t.chance(25);
        let u = if reads_grid {
            let register = t.pick(&["%ctaid.x", "%nctaid.x", "%ctaid.y"]);
            t.set(Kind::B32, "mov.u32", register)
        } else {
            t.set(Kind::B32, "mov.u32", "5")
        };
        if reads_grid {
            self.features.insert("callee reads grid");
        }
        body.ints = vec![a.clone(), b];
        body.uniforms = vec![u.clone()];
        body.first_values();
        body.budget = 30;
        // Who calls decides whether all threads come by; so nothing in here may rely on it.
        body.at.uniform = false;
        let kernel = std::mem::replace(&mut self.body, body);
        emit!(self.body.text, "xor.b32 {a}, {a}, {u}");
        while self.body.text.executed < 30 {
            self.statement();
        }
        let result = self.body.int();
        if self.body.text.chance(30) {
            // A second way out.
            let p = self.predicate();
            let go_on = self.body.text.label();
            emit!(self.body.text, "@!{p} bra {go_on}");
            emit!(self.body.text, "st.param.b32 [{name}_result+0], {a}");
            emit!(self.body.text, "ret");
            self.body.text.place(&go_on);
        }
        emit!(self.body.text, "st.param.b32 [{name}_result+0], {result}");
        emit!(self.body.text, "ret");
        let body = std::mem::replace(&mut self.body, kernel);
        self.before += &format!(
            "\n.func (.param .b32 {name}_result) {name}(\n\t.param .b32 {name}_a,\n\t.param .b32 {name}_b,\n\
             \t.param .b64 {name}_in\n)\n{{\n{}{}}}\n",
            body.variables,
            body.text.finish(),
        );
    }

    /// Calls a function; sometimes through an address, which threads may choose differently.
    pub(super) fn call(&mut self) {
        self.features.insert("call");
        if !self.body.together {
            self.features.insert("call behind an exit");
        }
        let most = u32::try_from(self.functions.len()).unwrap_or(1);
        let pick = |m: &mut Self| {
            let n = m.body.text.dice.below(most) as usize;
            m.functions[n].name.clone()
        };
        let (first, second) = (pick(self), pick(self));
        let (a, b, d) = (self.body.int(), self.body.int(), self.body.int());
        let indirect = self.body.text.chance(25);
        let p = indirect.then(|| self.predicate());
        let input = self.body.input.clone();
        let t = &mut self.body.text;
        let generic = t.set(Kind::B64, "cvta.global.u64", &input);
        let target = p.map(|p| {
            let x = t.set(Kind::B64, "mov.u64", &first);
            let y = t.set(Kind::B64, "mov.u64", &second);
            t.set(Kind::B64, "selp.b64", &format!("{x}, {y}, {p}"))
        });
        let prototype = t.label();
        t.raw("\t{");
        t.raw("\t.param .b32 given_a;\n\t.param .b32 given_b;\n\t.param .b64 given_in;\n\t.param .b32 taken;");
        emit!(t, "st.param.b32 [given_a+0], {a}");
        emit!(t, "st.param.b32 [given_b+0], {b}");
        emit!(t, "st.param.b64 [given_in+0], {generic}");
        t.times *= 30;
        match &target {
            None => emit!(t, "call.uni (taken), {first}, (given_a, given_b, given_in)"),
            Some(target) => {
                t.raw(&format!(
                    "{prototype}: .callprototype (.param .b32 _) _ (.param .b32 _, .param .b32 _, .param .b64 _);"
                ));
                emit!(
                    t,
                    "call (taken), {target}, (given_a, given_b, given_in), {prototype}"
                );
            }
        }
        t.times /= 30;
        emit!(t, "ld.param.b32 {d}, [taken+0]");
        t.raw("\t}");
        if target.is_some() {
            self.features.insert("indirect call");
        }
    }
}
