// SPDX-License-Identifier: GPL-2.0

//! The buffer in user space: pages that are faulted in one by one, and taken away by a move.
//!
//! C header: [`include/linux/mm.h`](srctree/include/linux/mm.h)

use crate::{
    bindings,
    window::PAGE_SIZE, //
};
use kernel::{
    error::to_result,
    prelude::*, //
};

type FaultCallback = unsafe extern "C" fn(*mut bindings::vm_fault) -> bindings::vm_fault_t;

pub(super) const fn operations(fault: FaultCallback) -> bindings::vm_operations_struct {
    let mut ops: bindings::vm_operations_struct = pin_init::zeroed();

    ops.fault = Some(fault);
    ops
}

/// Makes `vma` a shared mapping of `dmabuf`. `EINVAL` for a private one.
///
/// # Safety
///
/// `vma` is being set up for the file of `dmabuf`; `ops` are made for that.
pub(super) unsafe fn set_up(
    vma: *mut bindings::vm_area_struct,
    ops: &'static bindings::vm_operations_struct,
    dmabuf: *mut bindings::dma_buf,
) -> Result {
    // SAFETY: By the safety requirements.
    to_result(unsafe { bindings::vram_exporter_helper_set_up_vma(vma, ops, dmabuf.cast()) })
}

/// Puts the page that `find` gives for a byte of the buffer into user space.
///
/// What `find` returns beside the address is kept until that is done: the page cannot move.
///
/// # Safety
///
/// Called by the memory manager for a mapping that [`set_up`] has made. `find` gives pages of RAM.
pub(super) unsafe fn fault<G>(
    vmf: *mut bindings::vm_fault,
    find: impl FnOnce(*mut bindings::dma_buf, u64) -> Result<(u64, G)>,
) -> bindings::vm_fault_t {
    // SAFETY: By the safety requirements.
    let (vma, offset, address) = unsafe {
        let fault = &(*vmf).__bindgen_anon_1;

        (
            fault.vma,
            (fault.pgoff as u64).wrapping_mul(PAGE_SIZE),
            fault.address,
        )
    };

    // SAFETY: By the safety requirements.
    match find(unsafe { (*vma).vm_private_data.cast() }, offset) {
        Ok((phys, guard)) => {
            // SAFETY: The address is within the mapping, which takes page numbers.
            let result =
                unsafe { bindings::vmf_insert_pfn(vma, address, (phys / PAGE_SIZE) as usize) };

            drop(guard);
            result
        }
        Err(error) if error == ENOMEM => bindings::vm_fault_reason_VM_FAULT_OOM,
        Err(_) => bindings::vm_fault_reason_VM_FAULT_SIGBUS,
    }
}
