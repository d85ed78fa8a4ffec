//! Which feature of CUDA a function belongs to that is missing here, in the words of NVIDIA's documentation.
//!
//! Rule: the first row that fits a name counts. A name without a row says enough itself.

/// Parts of names, and the feature that they belong to.
const ROWS: &[(&str, &str)] = &[
    ("Graphics", "graphics interoperability"),
    ("cudaGL", "graphics interoperability"),
    ("EGL", "graphics interoperability"),
    ("VDPAU", "graphics interoperability"),
    ("External", "objects of other interfaces"),
    ("Graph", "graphs"),
    ("Capture", "graphs"),
    ("UserObject", "graphs"),
    ("Ipc", "memory shared between processes"),
    ("ShareableHandle", "memory shared between processes"),
    ("ExportPointer", "memory shared between processes"),
    ("ImportPointer", "memory shared between processes"),
    ("Texture", "textures"),
    ("Surface", "surfaces"),
    ("ChannelDesc", "arrays"),
    ("Array", "arrays"),
    ("Managed", "managed memory"),
    ("MemAdvise", "managed memory"),
    ("MemPrefetch", "managed memory"),
    ("MemDiscard", "managed memory"),
    ("MemRange", "managed memory"),
    ("AttachMem", "managed memory"),
    ("Cooperative", "cooperative launches"),
    ("Cluster", "clusters"),
    ("GreenCtx", "green contexts"),
    ("ExecutionCtx", "green contexts"),
    ("DevResource", "green contexts"),
    ("DevSmResource", "green contexts"),
    ("Batch", "batches of copies"),
    ("WithAttributes", "batches of copies"),
    ("Logs", "logs"),
];

/// Returns the feature that a missing function belongs to.
#[must_use]
pub fn of(symbol: &str) -> Option<&'static str> {
    let row = ROWS.iter().find(|(part, _)| symbol.contains(part));
    row.map(|(_, feature)| *feature)
}

#[cfg(test)]
mod tests {
    use super::of;

    #[test]
    fn functions_belong_to_the_features_that_users_know() {
        for (symbol, feature) in [
            ("cudaGraphLaunch", "graphs"),
            ("cudaStreamBeginCapture", "graphs"),
            ("cudaGraphicsMapResources", "graphics interoperability"),
            ("cudaIpcGetMemHandle", "memory shared between processes"),
            ("cudaCreateTextureObject", "textures"),
            ("cudaMallocArray", "arrays"),
            ("cudaMallocManaged", "managed memory"),
            ("cudaMemPrefetchAsync", "managed memory"),
            ("cudaLaunchCooperativeKernel", "cooperative launches"),
        ] {
            assert_eq!(of(symbol), Some(feature), "{symbol}");
        }
        assert_eq!(of("cudaFuncGetParamCount"), None);
    }
}
