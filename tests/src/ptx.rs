//! PTX that several tests launch.

/// A module whose kernel `endless` never ends.
pub const ENDLESS: &str = "
.version 8.0
.target sm_80
.address_size 64
.visible .entry endless()
{
$again:
    bra.uni $again;
}
";
