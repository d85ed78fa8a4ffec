//! Which feature of CUDA a function belongs to that is missing here, in the words of NVIDIA's documentation, so that a
//! user knows what the program asked for.
//!
//! Rule: the first row that fits a name counts. A name without a row says enough itself.

/// Beginnings of names, or parts of them, and the feature that they belong to.
const ROWS: &[(Part, &str)] = &[
    (Part::Start("cuGraphics"), "graphics interoperability"),
    (Part::Start("cuGL"), "graphics interoperability"),
    (Part::Start("cuEGL"), "graphics interoperability"),
    (Part::Start("cuVDPAU"), "graphics interoperability"),
    (Part::Inside("External"), "objects of other interfaces"),
    (Part::Start("cuGraph"), "graphs"),
    (Part::Inside("GraphMem"), "graphs"),
    (Part::Inside("Capture"), "graphs"),
    (Part::Start("cuUserObject"), "graphs"),
    (Part::Start("cuIpc"), "memory shared between processes"),
    (
        Part::Inside("ShareableHandle"),
        "memory shared between processes",
    ),
    (
        Part::Inside("ExportPointer"),
        "memory shared between processes",
    ),
    (
        Part::Inside("ImportPointer"),
        "memory shared between processes",
    ),
    (Part::Inside("Multicast"), "multicast objects"),
    (Part::Start("cuLogicalEndpoint"), "logical endpoints"),
    (
        Part::Start("cuTensorMap"),
        "tensor maps, which the model has no TMA for",
    ),
    (Part::Start("cuTex"), "textures"),
    (Part::Inside("TexRef"), "textures"),
    (Part::Inside("Texture"), "textures"),
    (Part::Start("cuSurf"), "surfaces"),
    (Part::Inside("SurfRef"), "surfaces"),
    (Part::Inside("Array"), "arrays"),
    (Part::Inside("toA"), "arrays"),
    (Part::Start("cuMemcpyAto"), "arrays"),
    (Part::Inside("Managed"), "managed memory"),
    (Part::Start("cuMemAdvise"), "managed memory"),
    (Part::Start("cuMemPrefetch"), "managed memory"),
    (Part::Start("cuMemDiscard"), "managed memory"),
    (Part::Start("cuMemRange"), "managed memory"),
    (Part::Inside("AttachMem"), "managed memory"),
    (Part::Start("cuMemAddress"), "virtual memory management"),
    (Part::Start("cuMemCreate"), "virtual memory management"),
    (Part::Start("cuMemRelease"), "virtual memory management"),
    (Part::Start("cuMemMap"), "virtual memory management"),
    (Part::Start("cuMemUnmap"), "virtual memory management"),
    (Part::Start("cuMemSetAccess"), "virtual memory management"),
    (Part::Start("cuMemGetAccess"), "virtual memory management"),
    (Part::Inside("Allocation"), "virtual memory management"),
    (Part::Start("cuLaunchCooperative"), "cooperative launches"),
    (Part::Inside("Cluster"), "clusters"),
    (Part::Start("cuGreenCtx"), "green contexts"),
    (Part::Inside("GreenCtx"), "green contexts"),
    (Part::Inside("DevResource"), "green contexts"),
    (Part::Inside("DevSmResource"), "green contexts"),
    (Part::Inside("ExecAffinity"), "parts of a device"),
    (Part::Inside("WaitValue"), "streams that wait for values"),
    (Part::Inside("BatchMemOp"), "streams that wait for values"),
    (Part::Inside("Batch"), "batches of copies"),
    (Part::Inside("WithAttributes"), "batches of copies"),
    (Part::Start("cuCoredump"), "core dumps"),
    (Part::Start("cuCheckpoint"), "checkpoints"),
    (Part::Start("cuLogs"), "logs"),
    (
        Part::Start("cuParam"),
        "launches of CUDA 3, for which there is cuLaunchKernel",
    ),
    (
        Part::Start("cuLaunchGrid"),
        "launches of CUDA 3, for which there is cuLaunchKernel",
    ),
    (
        Part::Start("cuFuncSet"),
        "launches of CUDA 3, for which there is cuLaunchKernel",
    ),
];

/// A part of a name.
#[derive(Debug, Clone, Copy)]
enum Part {
    Start(&'static str),
    Inside(&'static str),
}

/// Returns the feature that a missing function belongs to.
#[must_use]
pub fn of(symbol: &str) -> Option<&'static str> {
    let fits = |part: Part| match part {
        Part::Start(start) => symbol.starts_with(start),
        Part::Inside(inside) => symbol.contains(inside),
    };
    ROWS.iter()
        .find(|(part, _)| fits(*part))
        .map(|(_, feature)| *feature)
}

#[cfg(test)]
mod tests {
    use super::of;

    #[test]
    fn functions_belong_to_the_features_that_users_know() {
        for (symbol, feature) in [
            ("cuGraphLaunch", "graphs"),
            ("cuStreamBeginCapture_v2", "graphs"),
            ("cuDeviceGraphMemTrim", "graphs"),
            ("cuGraphicsMapResources", "graphics interoperability"),
            ("cuIpcGetMemHandle", "memory shared between processes"),
            (
                "cuMemPoolExportToShareableHandle",
                "memory shared between processes",
            ),
            ("cuTexObjectCreate", "textures"),
            ("cuArrayCreate_v2", "arrays"),
            ("cuMemcpyHtoA_v2", "arrays"),
            ("cuMemAllocManaged", "managed memory"),
            ("cuMemPrefetchAsync_v2", "managed memory"),
            ("cuMemAddressReserve", "virtual memory management"),
            ("cuMemGetAllocationGranularity", "virtual memory management"),
            ("cuLaunchCooperativeKernel", "cooperative launches"),
            ("cuOccupancyMaxActiveClusters", "clusters"),
            ("cuDevSmResourceSplitByCount", "green contexts"),
            ("cuStreamWaitValue32_v2", "streams that wait for values"),
        ] {
            assert_eq!(of(symbol), Some(feature), "{symbol}");
        }
        assert_eq!(of("cuMemGetLocationInfo"), None);
    }
}
