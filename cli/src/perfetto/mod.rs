//! Timelines as files that Perfetto opens (<https://ui.perfetto.dev>): TrackEvents in protobuf.
//!
//! The fields are those of Perfetto's `trace_packet.proto`, `track_descriptor.proto`, `track_event.proto` and
//! `debug_annotation.proto`; a file is one message `Trace`, whose field 1 is a packet, so that files can be cut after
//! any packet.
//!
//! Rules: [`wire`] knows protobuf alone, [`packet`] Perfetto's fields alone; what is read is hostile, because a file
//! may come from anywhere.

pub(crate) mod packet;
pub(crate) mod wire;
