// SPDX-License-Identifier: GPL-2.0

//! From registration to the end: attach, map, unmap, detach, release, and the rights of the file.

#[kernel::prelude::kunit_tests(rdma_dmabuf_attach)]
mod tests {
    use crate::kunit::{
        check::{
            ensure,
            eventually,
            Verdict, //
        },
        driver::{
            Driver,
            Rights,
            Wish, //
        },
        exporter::{
            Exporter,
            Mode,
            Moment, //
        },
    };
    use kernel::prelude::*;

    #[test]
    fn registration_attaches_and_maps_once() -> Verdict {
        let exporter = Exporter::new(&[2, 1])?;
        let mr = Driver::new()?.register(&exporter, Wish::all_of(&exporter))?;

        ensure!(exporter.counts().attaches.get() == 1);
        ensure!(exporter.counts().maps.get() == 1);
        ensure!(exporter.counts().unmaps.get() == 0);
        drop(mr);
        exporter.settle()
    }

    #[test]
    fn put_unmaps_and_detaches_once() -> Verdict {
        let exporter = Exporter::new(&[2, 1])?;

        drop(Driver::new()?.register(&exporter, Wish::all_of(&exporter))?);
        ensure!(exporter.counts().unmaps.get() == 1);
        ensure!(exporter.counts().detaches.get() == 1);
        exporter.settle()
    }

    #[test]
    fn put_of_an_unmapped_region_only_detaches() -> Verdict {
        let exporter = Exporter::new(&[2])?;
        let mr = Driver::new()?.register(&exporter, Wish::all_of(&exporter))?;

        exporter.invalidate();
        drop(mr);
        ensure!(exporter.counts().unmaps.get() == 1);
        ensure!(exporter.counts().detaches.get() == 1);
        exporter.settle()
    }

    #[test]
    fn region_outlives_its_fd_and_holds_the_buffer() -> Verdict {
        let exporter = Exporter::new(&[1])?;
        let mr = Driver::new()?.register(&exporter, Wish::all_of(&exporter))?;
        let mut byte = [0];

        ensure!(mr.shows(&exporter)?);
        let remains = exporter.give_up();
        ensure!(mr.read(crate::kunit::driver::BASE, &mut byte).is_ok());
        ensure!(!remains.is_released());
        drop(mr);
        ensure!(eventually(|| remains.is_released()));
        remains.settle()
    }

    #[test]
    fn regions_on_one_buffer_attach_each_for_itself() -> Verdict {
        let exporter = Exporter::new(&[2])?;
        let driver = Driver::new()?;
        let first = driver.register(&exporter, Wish::all_of(&exporter))?;
        let second = driver.register(&exporter, Wish::all_of(&exporter))?;

        ensure!(exporter.counts().attaches.get() == 2);
        drop(first);
        ensure!(exporter.counts().detaches.get() == 1);
        ensure!(second.shows(&exporter)?);
        drop(second);
        exporter.settle()
    }

    #[test]
    fn callback_before_attach_returns_is_harmless() -> Verdict {
        let exporter = Exporter::new(&[2])?;

        exporter.call_back_in(Moment::Attach);
        let mr = Driver::new()?.register(&exporter, Wish::all_of(&exporter))?;
        ensure!(exporter.has_called_back());
        ensure!(exporter.counts().maps.get() == 1);
        ensure!(mr.shows(&exporter)?);
        drop(mr);
        exporter.settle()
    }

    #[test]
    fn no_callback_reaches_a_region_that_was_put() -> Verdict {
        let exporter = Exporter::new(&[2])?;
        let driver = Driver::new()?;

        drop(driver.register(&exporter, Wish::all_of(&exporter))?);
        ensure!(exporter.counts().detaches.get() == 1);
        exporter.move_to_new_pages()?;
        ensure!(driver.totals()?.invalidations.get() == 0);
        exporter.settle()
    }

    #[test]
    fn refused_attach_leaves_nothing_behind() -> Verdict {
        let exporter = Exporter::new(&[2])?;
        let driver = Driver::new()?;

        exporter.refuse_attach(EBUSY);
        let refused = driver.register(&exporter, Wish::all_of(&exporter));
        ensure!(refused.err() == Some(EBUSY));
        ensure!(exporter.counts().maps.get() == 0);
        ensure!(driver.totals()?.regions.get() == 0);
        ensure!(driver.register(&exporter, Wish::all_of(&exporter)).is_ok());
        exporter.settle()
    }

    #[test]
    fn refused_map_leaves_nothing_behind() -> Verdict {
        let exporter = Exporter::new(&[2])?;
        let driver = Driver::new()?;

        exporter.answer_next_map(crate::kunit::exporter::Answer::Refusal(ENOSPC));
        let refused = driver.register(&exporter, Wish::all_of(&exporter));
        ensure!(refused.err() == Some(ENOSPC));
        ensure!(exporter.counts().detaches.get() == 1);
        ensure!(driver.totals()?.regions.get() == 0);
        ensure!(driver.register(&exporter, Wish::all_of(&exporter)).is_ok());
        exporter.settle()
    }

    #[test]
    fn books_tell_what_happened() -> Verdict {
        let exporter = Exporter::new(&[2])?;
        let driver = Driver::new()?;
        let totals = driver.totals()?;
        let mr = driver.register(&exporter, Wish::all_of(&exporter))?;

        ensure!(totals.regions.get() == 1);
        ensure!(totals.blocks_mapped.get() == 2);
        ensure!(totals.bytes_mapped.get() == exporter.size());
        exporter.move_to_new_pages()?;
        ensure!(totals.unmaps.get() == 1);
        ensure!(mr.shows(&exporter)?);
        ensure!(mr.access(0, 1).err() == Some(EINVAL));
        drop(mr);
        ensure!(totals.regions.get() == 0);
        ensure!(totals.attaches.get() == 1);
        ensure!(totals.maps.get() == 2);
        ensure!(totals.unmaps.get() == 2);
        ensure!(totals.invalidations.get() == 1);
        ensure!(totals.faults.get() == 1);
        ensure!(totals.refused.get() == 1);
        exporter.settle()
    }

    #[test]
    fn regions_are_listed_as_long_as_they_live() -> Verdict {
        let exporter = Exporter::new(&[2])?;
        let driver = Driver::new()?;
        let first = driver.register(&exporter, Wish::all_of(&exporter))?;
        let second = driver.register(&exporter, Wish::all_of(&exporter))?;

        ensure!(driver.listed()? == 2);
        drop(first);
        ensure!(driver.listed()? == 1);
        drop(second);
        ensure!(driver.listed()? == 0);
        exporter.answer_next_map(crate::kunit::exporter::Answer::Refusal(ENOSPC));
        ensure!(driver.register(&exporter, Wish::all_of(&exporter)).is_err());
        ensure!(driver.listed()? == 0);
        exporter.settle()
    }

    #[test]
    fn every_road_leads_to_the_same_bytes() -> Verdict {
        let exporter = Exporter::new(&[1, 2])?;

        for driver in [
            Driver::linked(),
            Driver::by_registry(),
            Driver::with_device()?,
        ] {
            let mr = driver.register(&exporter, Wish::new(100, 5000))?;

            ensure!(mr.shows(&exporter)?);
            mr.shutdown();
            ensure!(mr.access_all().err() == Some(ENODEV));
        }
        exporter.settle()
    }

    /// Registers with each of `rights`, which must all end in `error`.
    fn try_rights(
        driver: &Driver,
        exporter: &Exporter,
        rights: &[Rights],
        error: Option<Error>,
    ) -> Verdict {
        for (row, rights) in rights.iter().copied().enumerate() {
            let wish = Wish {
                rights,
                ..Wish::all_of(exporter)
            };

            ensure!(driver.register(exporter, wish).err() == error, row);
        }
        Ok(())
    }

    const READING: [Rights; 2] = [Rights::NONE, Rights::REMOTE_READ];
    const WRITING: [Rights; 3] = [
        Rights::LOCAL_WRITE,
        Rights::REMOTE_WRITE,
        Rights::REMOTE_ATOMIC,
    ];

    #[test]
    fn read_only_file_can_only_be_read() -> Verdict {
        let exporter = Exporter::with_mode(&[1], Mode::ReadOnly)?;
        let driver = Driver::new()?;

        try_rights(&driver, &exporter, &WRITING, Some(EACCES))?;
        ensure!(exporter.counts().attaches.get() == 0);
        try_rights(&driver, &exporter, &READING, None)?;
        exporter.settle()
    }

    #[test]
    fn write_only_file_is_refused_whatever_is_asked() -> Verdict {
        let exporter = Exporter::with_mode(&[1], Mode::WriteOnly)?;
        let driver = Driver::new()?;

        try_rights(&driver, &exporter, &WRITING, Some(EACCES))?;
        try_rights(&driver, &exporter, &READING, Some(EACCES))?;
        ensure!(exporter.counts().attaches.get() == 0);
        exporter.settle()
    }

    #[test]
    fn file_for_both_gives_every_right() -> Verdict {
        let exporter = Exporter::new(&[1])?;
        let driver = Driver::new()?;

        try_rights(&driver, &exporter, &WRITING, None)?;
        try_rights(&driver, &exporter, &READING, None)?;
        exporter.settle()
    }

    #[test]
    fn check_of_rights_can_be_turned_off() -> Verdict {
        let driver = Driver::without_check_of_rights()?;

        for mode in [Mode::ReadOnly, Mode::WriteOnly] {
            let exporter = Exporter::with_mode(&[1], mode)?;

            try_rights(&driver, &exporter, &WRITING, None)?;
            try_rights(&driver, &exporter, &READING, None)?;
            exporter.settle()?;
        }
        Ok(())
    }
}
