// SPDX-License-Identifier: GPL-2.0

//! Whether everything that was taken was given back.

use crate::{debugfs::Counters, exporter::Stats};

/// What the exporter's statistics of a buffer say against its users, once none is left.
pub(super) fn buffer_faults(before: &Stats, after: &Stats) -> Vec<String> {
    let pairs = [
        ("attaches", after.attaches, "detaches", after.detaches),
        ("maps", after.maps, "unmaps", after.unmaps),
        ("pins", after.pins, "unpins", after.unpins),
        ("vmaps", after.vmaps, "vunmaps", after.vunmaps),
        ("cpu_begins", after.cpu_begins, "cpu_ends", after.cpu_ends),
    ];
    let unequal = pairs
        .into_iter()
        .filter(|(_, taken, _, given)| taken != given)
        .map(|(take, taken, give, given)| format!("{taken} {take}, but {given} {give}"));
    // Of all buffers that ever were, those of other programs included.
    let late = after
        .vram_late_writes
        .saturating_sub(before.vram_late_writes);
    let none = [
        ("pinned", after.pinned.into()),
        ("mapped", after.mapped.into()),
        ("breaches", after.breaches),
        ("late_writes", after.late_writes),
        ("guard_writes", after.guard_writes),
        ("vram_late_writes", late),
    ];
    let some = none
        .into_iter()
        .filter(|(_, count)| *count != 0)
        .map(|(name, count)| format!("{count} {name}, and there must be none"));
    unequal.chain(some).collect()
}

/// What the importer's counters say, once all regions are deregistered.
pub(super) fn importer_faults(before: &Counters, after: &Counters, registered: u64) -> Vec<String> {
    let grown = |name| after.grown(before, name);
    let mut faults = Vec::new();
    if after.value("regions") > before.value("regions") {
        faults.push(format!(
            "the importer has {} regions more than before",
            grown("regions")
        ));
    }
    if grown("maps") != grown("unmaps") {
        faults.push(format!(
            "the importer mapped {} times and unmapped {} times",
            grown("maps"),
            grown("unmaps")
        ));
    }
    if grown("attaches") < registered {
        faults.push(format!(
            "{registered} regions were registered, but the importer attached {} times",
            grown("attaches")
        ));
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Result;

    #[test]
    fn a_buffer_that_was_given_back_has_no_faults() {
        let mut stats = Stats::default();
        (stats.attaches, stats.detaches) = (3, 3);
        (stats.maps, stats.unmaps) = (70, 70);
        (stats.moves, stats.invalidations) = (500, 500);
        stats.vram_late_writes = 9;
        assert_eq!(buffer_faults(&stats, &stats), [""; 0]);
    }

    #[test]
    fn each_imbalance_is_named() {
        type Spoil = fn(&mut Stats);
        let set: [(Spoil, &str); 11] = [
            (|stats| stats.attaches = 1, "1 attaches, but 0 detaches"),
            (|stats| stats.unmaps = 1, "0 maps, but 1 unmaps"),
            (|stats| stats.pins = 1, "1 pins"),
            (|stats| stats.vmaps = 1, "1 vmaps"),
            (|stats| stats.cpu_begins = 1, "1 cpu_begins"),
            (|stats| stats.pinned = 1, "1 pinned"),
            (|stats| stats.mapped = 1, "1 mapped"),
            (|stats| stats.breaches = 1, "1 breaches"),
            (|stats| stats.late_writes = 1, "1 late_writes"),
            (|stats| stats.guard_writes = 1, "1 guard_writes"),
            (|stats| stats.vram_late_writes = 1, "1 vram_late_writes"),
        ];
        for (spoil, told) in set {
            let mut stats = Stats::default();
            spoil(&mut stats);
            let faults = buffer_faults(&Stats::default(), &stats);
            assert!(
                faults.len() == 1 && faults[0].starts_with(told),
                "{faults:?}"
            );
        }
    }

    #[test]
    fn the_importers_leaks_are_named() -> Result<()> {
        let told = |after: &str, registered| -> Result<Vec<String>> {
            let before = "regions 1\nattaches 5\nmaps 6\nunmaps 5".parse()?;
            Ok(importer_faults(&before, &after.parse()?, registered))
        };
        assert_eq!(
            told("regions 1\nattaches 9\nmaps 16\nunmaps 15", 4)?,
            [""; 0]
        );
        assert!(
            told("regions 2\nattaches 9\nmaps 16\nunmaps 15", 4)?[0].contains("1 regions more")
        );
        assert!(told("regions 1\nattaches 9\nmaps 17\nunmaps 15", 4)?[0].contains("unmapped 10"));
        assert!(told("regions 1\nattaches 8\nmaps 16\nunmaps 15", 4)?[0].contains("attached 3"));
        Ok(())
    }
}
