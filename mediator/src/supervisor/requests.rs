//! What operators ask, and what is done about it.
//!
//! Rule: who may only read is told so, and nothing else is done; a reading is answered when the host has written it.

use super::Supervisor;
use super::admin::{self, AdminReply, AdminRequest};
use super::reading::Subject;
use nix::unistd::geteuid;
use std::time::Instant;

impl Supervisor {
    /// Hears what operators ask, and does or answers it.
    pub(super) fn hear_operators(&mut self, now: Instant) {
        for request in self.operators.go_on(now) {
            let reply = match serde_json::from_slice::<AdminRequest>(&request.line) {
                Ok(asked) if !asked.is_permitted_to(request.user, geteuid().as_raw()) => {
                    AdminReply::Error(admin::NOT_PERMITTED.into())
                }
                Ok(AdminRequest::Statistics) => {
                    self.ask_for_reading((request.number, Subject::Counters), now);
                    continue;
                }
                Ok(AdminRequest::Kernels) => {
                    self.ask_for_reading((request.number, Subject::Kernels), now);
                    continue;
                }
                Ok(AdminRequest::Usage(query)) => {
                    self.ask_for_reading((request.number, Subject::Usage(query)), now);
                    continue;
                }
                Ok(AdminRequest::Change(change)) => self.change(&change, request.user),
                Ok(AdminRequest::Stop) => {
                    self.stopping = true;
                    AdminReply::Done
                }
                Err(error) => AdminReply::Error(format!("request not understood: {error}")),
            };
            self.operators.answer(request.number, &reply, now);
        }
        self.answer_late_readings(now);
    }
}
