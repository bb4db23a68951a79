// SPDX-License-Identifier: GPL-2.0

//! Which error it is: programs read them as feature flags, so their order is part of the contract.

#[kernel::prelude::kunit_tests(rdma_dmabuf_errors)]
mod tests {
    use crate::{
        ffi,
        kunit::{
            check::{
                ensure,
                Verdict, //
            },
            driver::{
                self,
                Driver,
                Wish,
                BASE, //
            },
            exporter::{
                Answer,
                Exporter,
                Mode, //
            },
            fd::Fd,
        },
        window::PAGE_SIZE, //
    };
    use kernel::{
        ffi::c_int,
        module::this_module,
        prelude::*, //
    };

    const P: u64 = PAGE_SIZE;

    /// Name, `[offset, length, iova]`, what comes of it.
    type Row = (&'static str, [u64; 3], Error);

    /// Registers each of the rows, by the exports and by the registry.
    fn try_rows(fd: c_int, rows: &[Row]) -> Verdict {
        for driver in [Driver::linked(), Driver::by_registry()] {
            for (name, [offset, length, iova], error) in rows {
                let wish = Wish {
                    iova: *iova,
                    ..Wish::new(*offset, *length)
                };

                ensure!(driver.register_fd(fd, wish).err() == Some(*error), name);
            }
        }
        Ok(())
    }

    /// Wrong whatever the file descriptor is.
    const WRONG_NUMBERS: &[Row] = &[
        (
            "offset + length wraps",
            [0u64.wrapping_sub(P), 2 * P, BASE],
            EINVAL,
        ),
        (
            "iova + length wraps",
            [0, 2 * P, 0u64.wrapping_sub(P)],
            EINVAL,
        ),
        ("offset and iova differ", [8, P, BASE], EINVAL),
        ("iova and offset differ", [0, P, BASE + 8], EINVAL),
    ];

    /// Wrong for a buffer of two pages.
    const WRONG_RANGES: &[Row] = &[
        ("a byte beyond", [0, 2 * P + 1, BASE], EINVAL),
        ("a page beyond", [2 * P, P, BASE], EINVAL),
        ("far beyond", [1 << 40, P, BASE], EINVAL),
        ("no length beyond", [3 * P, 0, BASE], EINVAL),
        ("no length", [0, 0, BASE], EINVAL),
        ("no length at the end", [2 * P, 0, BASE], EINVAL),
    ];

    /// What programs ask with a bad file descriptor, to see whether this is supported.
    const PROBES: &[(&str, [u64; 3])] = &[
        ("UCX", [0, P, 0]),
        ("NCCL and libfabric", [0, 0, 0]),
        ("a range that no buffer has", [1 << 40, 1 << 50, 0]),
    ];

    fn probe(fd: c_int, error: Error) -> Verdict {
        for (name, numbers) in PROBES {
            try_rows(fd, &[(name, *numbers, error)])?;
        }
        Ok(())
    }

    #[test]
    fn fd_minus_one_is_ebadf_whatever_the_range() -> Verdict {
        probe(-1, EBADF)
    }

    #[test]
    fn closed_fd_is_ebadf_whatever_the_range() -> Verdict {
        let exporter = Exporter::new(&[1])?;
        let fd = Fd::of(&exporter)?;
        let number = fd.number();

        drop(fd);
        probe(number, EBADF)?;
        exporter.settle()
    }

    #[test]
    fn file_that_is_no_dma_buf_is_einval() -> Verdict {
        let fd = Fd::of_something_else()?;

        probe(fd.number(), EINVAL)
    }

    #[test]
    fn overflow_and_misalignment_are_judged_before_the_fd() -> Verdict {
        try_rows(-1, WRONG_NUMBERS)
    }

    #[test]
    fn range_is_judged_before_the_exporter_is_asked() -> Verdict {
        let exporter = Exporter::new(&[2])?;
        let fd = Fd::of(&exporter)?;

        try_rows(fd.number(), WRONG_NUMBERS)?;
        try_rows(fd.number(), WRONG_RANGES)?;
        drop(fd);
        ensure!(exporter.counts().attaches.get() == 0);
        exporter.settle()
    }

    #[test]
    fn range_is_judged_before_the_rights() -> Verdict {
        let exporter = Exporter::with_mode(&[2], Mode::ReadOnly)?;
        let fd = Fd::of(&exporter)?;

        try_rows(fd.number(), WRONG_RANGES)?;
        try_rows(
            fd.number(),
            &[("what the buffer has", [0, P, BASE], EACCES)],
        )?;
        drop(fd);
        exporter.settle()
    }

    #[test]
    fn rights_are_judged_before_the_exporter_is_asked() -> Verdict {
        let exporter = Exporter::with_mode(&[2], Mode::ReadOnly)?;

        exporter.refuse_attach(EBUSY);
        let refused = Driver::new()?.register(&exporter, Wish::all_of(&exporter));
        ensure!(refused.err() == Some(EACCES));
        exporter.settle()
    }

    /// What exporters answer, some of it meant for the kernel alone.
    const CODES: [Error; 9] = [
        EBUSY,
        EPERM,
        ENODEV,
        EOPNOTSUPP,
        EINTR,
        ERESTARTSYS,
        EPROBE_DEFER,
        ENOTSUPP,
        EBADCOOKIE,
    ];

    #[test]
    fn codes_of_attach_are_passed_on_unchanged() -> Verdict {
        let exporter = Exporter::new(&[1])?;

        for driver in [Driver::linked(), Driver::by_registry()] {
            for code in CODES {
                exporter.refuse_attach(code);
                let refused = driver.register(&exporter, Wish::all_of(&exporter));
                ensure!(refused.err() == Some(code), code.to_errno());
            }
        }
        exporter.settle()
    }

    #[test]
    fn codes_of_map_are_passed_on_unchanged() -> Verdict {
        let exporter = Exporter::new(&[1])?;

        for driver in [Driver::linked(), Driver::by_registry()] {
            for code in CODES {
                exporter.answer_next_map(Answer::Refusal(code));
                let refused = driver.register(&exporter, Wish::all_of(&exporter));
                ensure!(refused.err() == Some(code), code.to_errno());
            }
        }
        exporter.settle()
    }

    #[test]
    fn codes_of_a_later_map_are_passed_on_unchanged() -> Verdict {
        let exporter = Exporter::new(&[1])?;
        let mr = Driver::by_registry().register(&exporter, Wish::all_of(&exporter))?;

        exporter.invalidate();
        for code in CODES {
            exporter.answer_next_map(Answer::Refusal(code));
            ensure!(mr.access_all().err() == Some(code), code.to_errno());
        }
        drop(mr);
        exporter.settle()
    }

    #[test]
    fn codes_of_the_kernel_alone_are_translated_for_user_space() -> Verdict {
        let translated = [
            (ERESTARTSYS, EINTR),
            (ENOTSUPP, EOPNOTSUPP),
            (EPROBE_DEFER, EIO),
            (EBADCOOKIE, EIO),
            (EBUSY, EBUSY),
            (EHWPOISON, EHWPOISON),
        ];

        for (code, seen) in translated {
            ensure!(driver::user_errno(code) == seen.to_errno(), code.to_errno());
        }
        Ok(())
    }

    #[test]
    fn second_importer_is_ebusy() -> Verdict {
        ensure!(driver::register_another_importer().err() == Some(EBUSY));
        ensure!(Driver::by_registry().register_fd(-1, Wish::new(0, P)).err() == Some(EBADF));
        Ok(())
    }

    #[test]
    fn second_service_of_the_module_is_ebusy() -> Verdict {
        let module = this_module::<crate::LocalModule>();
        let second = ffi::Service::new(module, ffi::importer()?);

        ensure!(second.err() == Some(EBUSY));
        ensure!(Driver::linked().register_fd(-1, Wish::new(0, P)).err() == Some(EBADF));
        Ok(())
    }
}
