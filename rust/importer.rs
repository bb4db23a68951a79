// SPDX-License-Identifier: GPL-2.0

//! What all regions have in common: the device, the settings, and the list of those that live.

use crate::{
    attachment::Mode,
    device::OwnDevice,
    record::{
        Presence,
        Record,
        Totals, //
    },
};
use kernel::{
    debugfs, fmt,
    prelude::*,
    rbtree::{
        RBTree,
        RBTreeNode, //
    },
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        new_mutex,
        Arc,
        Mutex, //
    },
};

/// The longest that [`Settings::fence_timeout_ms`] can be: rxe frees an MR 50 s after it is
/// deregistered, whoever still waits.
const MAX_FENCE_TIMEOUT_MS: u32 = 10_000;

/// The module parameters.
#[derive(Clone, Copy)]
pub(crate) struct Settings {
    /// How long one access may wait for the exporter's fences, in milliseconds.
    pub(crate) fence_timeout_ms: u32,
    /// Whether an MR needs the rights that the dma-buf's file was opened with.
    pub(crate) check_rights: bool,
    /// The mode of regions whose driver does not choose one.
    pub(crate) mode: Mode,
}

impl Settings {
    /// What a number given by the user stands for. `EINVAL`, with the choice in the log, if it
    /// stands for nothing.
    pub(crate) fn mode_from(number: u32) -> Result<Mode> {
        Mode::from_c(number).ok_or(EINVAL).inspect_err(|_| {
            pr_err!("mode={number} is unknown: use 0 (dynamic), 1 (pinned) or 2 (revocable)\n");
        })
    }

    /// Bounds what the user asked for.
    pub(crate) fn clamped(self) -> Self {
        Self {
            fence_timeout_ms: self.fence_timeout_ms.min(MAX_FENCE_TIMEOUT_MS),
            ..self
        }
    }
}

/// The living regions by their id.
#[pin_data]
pub(crate) struct Records {
    #[pin]
    tree: Mutex<RBTree<u64, Arc<Record>>>,
}

impl debugfs::Writer for Shown<Records> {
    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .tree
            .lock()
            .values()
            .try_for_each(|record| record.write(f))
    }
}

impl debugfs::Writer for Shown<Totals> {
    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.write(f)
    }
}

/// Something that a file of debugfs shows.
struct Shown<T>(Arc<T>);

#[cfg(CONFIG_RDMA_DMABUF_KUNIT_TEST)]
impl<T> fmt::Display for Shown<T>
where
    Self: debugfs::Writer,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        debugfs::Writer::write(self, f)
    }
}

/// The importer: one for the module, kept alive by its regions.
pub(crate) struct Importer {
    own: Arc<OwnDevice>,
    settings: Settings,
    totals: Arc<Totals>,
    records: Arc<Records>,
    next_id: Atomic<u64>,
}

impl Importer {
    /// Opens the books of an importer that gives `own` to drivers without a device.
    pub(crate) fn new(own: Arc<OwnDevice>, settings: Settings) -> Result<Arc<Self>> {
        let records = Arc::pin_init(
            pin_init!(Records {
                tree <- new_mutex!(RBTree::new(), "rdma_dmabuf::records"),
            }),
            GFP_KERNEL,
        )?;

        Ok(Arc::new(
            Self {
                own,
                settings: settings.clamped(),
                totals: Arc::new(Totals::new(), GFP_KERNEL)?,
                records,
                next_id: Atomic::new(1),
            },
            GFP_KERNEL,
        )?)
    }

    /// The device for drivers that have none.
    pub(crate) fn own_device(&self) -> &Arc<OwnDevice> {
        &self.own
    }

    pub(crate) fn settings(&self) -> Settings {
        self.settings
    }

    pub(crate) fn totals(&self) -> &Arc<Totals> {
        &self.totals
    }

    /// An id that no other region has had.
    pub(crate) fn next_id(&self) -> u64 {
        self.next_id.fetch_add(1, Relaxed)
    }

    /// How many regions are listed.
    #[cfg(CONFIG_RDMA_DMABUF_KUNIT_TEST)]
    pub(crate) fn listed(&self) -> usize {
        self.records.tree.lock().values().count()
    }

    /// What debugfs shows of the regions.
    #[cfg(CONFIG_RDMA_DMABUF_KUNIT_TEST)]
    pub(crate) fn described(&self) -> Result<kernel::str::CString> {
        kernel::str::CString::try_from_fmt(fmt!("{}", Shown(self.records.clone())))
    }

    /// Lists a region until the returned object is dropped.
    pub(crate) fn list(self: &Arc<Self>, record: Arc<Record>) -> Result<Listing> {
        let id = record.id();
        let node = RBTreeNode::new(id, record, GFP_KERNEL_ACCOUNT)?;

        self.records.tree.lock().insert(node);
        Ok(Listing {
            importer: self.clone(),
            id,
            _presence: Presence::new(self.totals.clone()),
        })
    }
}

/// An entry in the list of living regions.
pub(crate) struct Listing {
    importer: Arc<Importer>,
    id: u64,
    _presence: Presence,
}

impl Drop for Listing {
    fn drop(&mut self) {
        let node = self.importer.records.tree.lock().remove_node(&self.id);

        // Freed without the lock.
        drop(node);
    }
}

/// `/sys/kernel/debug/rdma_dmabuf`.
pub(crate) struct DebugFiles {
    _counters: Pin<KBox<debugfs::File<Shown<Totals>>>>,
    _regions: Pin<KBox<debugfs::File<Shown<Records>>>>,
    // Dropped last.
    _dir: debugfs::Dir,
}

impl DebugFiles {
    pub(crate) fn new(importer: &Importer) -> Result<Self> {
        let dir = debugfs::Dir::new(c"rdma_dmabuf");

        Ok(Self {
            _counters: KBox::pin_init(
                dir.read_only_file(c"counters", Shown(importer.totals.clone())),
                GFP_KERNEL,
            )?,
            _regions: KBox::pin_init(
                dir.read_only_file(c"regions", Shown(importer.records.clone())),
                GFP_KERNEL,
            )?,
            _dir: dir,
        })
    }
}
