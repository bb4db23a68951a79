// SPDX-License-Identifier: GPL-2.0

//! Everything at once: threads that access, move, revoke, register and release.
//!
//! Each runs for a number of rounds, so that a case ends whatever the machine's speed. What is
//! looked for: a write that lands in memory that was taken away, an access that is lost, and a
//! balance that is not zero in the end.

#[kernel::prelude::kunit_tests(rdma_dmabuf_races)]
mod tests {
    use crate::{
        attachment::Mode,
        kunit::{
            check::{
                ensure,
                Verdict, //
            },
            driver::{
                Driver,
                Wish,
                BASE, //
            },
            exporter::{
                Exporter,
                Order, //
            },
            lives::SOON_MS,
            nic::{
                Nic,
                NicMr, //
            },
            thread::{
                Event,
                Thread, //
            },
        },
        window::PAGE_SIZE, //
    };
    use kernel::{
        prelude::*,
        sync::Arc, //
    };

    const P: u64 = PAGE_SIZE;
    const WRITERS: u64 = 3;

    /// Bytes of a packet: a number, again and again, and their sum.
    const PACKET: usize = 64;

    fn packet(round: u8) -> [u8; PACKET] {
        let mut bytes = [round; PACKET];

        if let Some((last, rest)) = bytes.split_last_mut() {
            *last = rest.iter().fold(0, |sum, byte| sum ^ byte.rotate_left(3));
        }
        bytes
    }

    /// Writes packets at `iova` and reads each back. `Err` if an access is refused.
    fn send(mr: &NicMr, iova: u64, rounds: u8) -> Result<bool> {
        for round in 1..=rounds {
            let mut back = [0; PACKET];

            mr.write(iova, &packet(round))?;
            mr.read(iova, &mut back)?;
            if back != packet(round) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Where writer `n` writes: across two pages of its own.
    fn place(n: u64) -> u64 {
        BASE + (2 * n + 1) * P - PACKET as u64 / 2
    }

    fn buffer() -> Result<Arc<Exporter>> {
        Order::of_runs(&[2, 2, 1, 3])?.for_pinned().export()
    }

    /// Registers and releases `rounds` regions, each used once.
    fn come_and_go(nic: &Nic, exporter: &Exporter, mode: Mode, rounds: u32) -> Result {
        for _ in 0..rounds {
            match nic.register(exporter, Wish::new(P, P), mode) {
                Ok(mr) => drop(mr.read(BASE + P, &mut [0; 8])),
                Err(error) if error == ENODEV => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    #[test]
    fn no_access_is_lost_while_the_buffer_moves() -> Verdict {
        let nic = Arc::new(Nic::new()?, GFP_KERNEL)?;
        let exporter = buffer()?;
        let wish = Wish::all_of(&exporter);
        let mr = Arc::new(nic.register(&exporter, wish, Mode::Dynamic)?, GFP_KERNEL)?;
        let mut writers = KVec::new();

        for n in 0..WRITERS {
            let mr = mr.clone();

            writers.push(Thread::spawn(move || send(&mr, place(n), 100))?, GFP_KERNEL)?;
        }
        let mover = {
            let exporter = exporter.clone();

            Thread::spawn(move || -> Result {
                for round in 0..60 {
                    match round % 3 {
                        0 => exporter.move_to_layout(&[8])?,
                        1 => exporter.move_to_layout(&[1; 8])?,
                        _ => exporter.move_to_new_pages()?,
                    }
                }
                Ok(())
            })?
        };
        let registrar = {
            let (nic, exporter) = (nic.clone(), exporter.clone());

            Thread::spawn(move || come_and_go(&nic, &exporter, Mode::Dynamic, 40))?
        };

        for writer in writers {
            ensure!(writer.join()??);
        }
        mover.join()??;
        registrar.join()??;
        let content = exporter.content()?;
        for n in 0..WRITERS {
            let at = (place(n) - BASE) as usize;

            ensure!(content.get(at..at + PACKET) == Some(&packet(100)[..]), n);
        }
        ensure!(exporter.counts().moves.get() >= 60);
        drop(mr);
        exporter.settle()
    }

    /// Writers on both regions, registrations of both, and whoever else acts on the buffers.
    fn two_at_once(act: fn(&Exporter, &Exporter) -> Result) -> Verdict {
        let nic = Arc::new(Nic::new()?, GFP_KERNEL)?;
        let buffers = [buffer()?, buffer()?];
        let mut writers = KVec::new();
        let mut others = KVec::new();

        for number in 0..2 {
            let (one, other) = (buffers[number].clone(), buffers[1 - number].clone());
            let mr = nic.register(&one, Wish::all_of(&one), Mode::Dynamic)?;
            let registrar = {
                let (nic, one) = (nic.clone(), one.clone());

                Thread::spawn(move || come_and_go(&nic, &one, Mode::Dynamic, 20))?
            };
            let actor = Thread::spawn(move || -> Result {
                for _ in 0..40 {
                    act(&one, &other)?;
                }
                Ok(())
            })?;

            writers.push(Thread::spawn(move || send(&mr, place(0), 100))?, GFP_KERNEL)?;
            others.push(registrar, GFP_KERNEL)?;
            others.push(actor, GFP_KERNEL)?;
        }
        for writer in writers {
            ensure!(writer.join()??);
        }
        for other in others {
            other.join()??;
        }
        for exporter in buffers {
            let at = (place(0) - BASE) as usize;

            ensure!(exporter.content()?.get(at..at + PACKET) == Some(&packet(100)[..]));
            ensure!(exporter.counts().moves.get() >= 20);
            exporter.settle()?;
        }
        Ok(())
    }

    #[test]
    fn buffers_move_together_in_either_order() -> Verdict {
        two_at_once(|one, other| one.move_with(other))
    }

    #[test]
    fn maps_take_each_others_place() -> Verdict {
        two_at_once(|one, other| {
            one.behave();
            one.evict_in_every(2, other);
            one.move_to_new_pages()
        })
    }

    #[test]
    fn accesses_by_the_gate_survive_moves_and_shrinkers() -> Verdict {
        let exporter = Exporter::new(&[2, 1])?;
        let mr = Arc::new(
            Driver::new()?.register(&exporter, Wish::all_of(&exporter))?,
            GFP_KERNEL,
        )?;
        let mut writers = KVec::new();

        for n in 0..WRITERS {
            let mr = mr.clone();

            writers.push(
                Thread::spawn(move || -> Result {
                    for round in 1..=150 {
                        mr.write(BASE + n * P, &packet(round))?;
                    }
                    Ok(())
                })?,
                GFP_KERNEL,
            )?;
        }
        for _ in 0..40 {
            exporter.move_to_new_pages()?;
            // The lock may be taken by a writer.
            if let Err(error) = exporter.shrink() {
                ensure!(error == EBUSY);
            }
        }
        for writer in writers {
            writer.join()??;
        }
        ensure!(exporter.content()?[..PACKET] == packet(150));
        drop(mr);
        exporter.settle()
    }

    #[test]
    fn dynamic_regions_are_refused_while_revoked_and_no_longer() -> Verdict {
        let nic = Arc::new(Nic::new()?, GFP_KERNEL)?;
        let exporter = buffer()?;
        let wish = Wish::all_of(&exporter);
        let mr = Arc::new(nic.register(&exporter, wish, Mode::Dynamic)?, GFP_KERNEL)?;
        let over = Event::new()?;
        let mut writers = KVec::new();

        for n in 0..WRITERS {
            let (mr, over) = (mr.clone(), over.clone());

            writers.push(
                Thread::spawn(move || -> Result<bool> {
                    while !over.has_happened() {
                        match send(&mr, place(n), 3) {
                            Ok(true) => {}
                            Err(error) if error == ENODEV => {}
                            other => return other,
                        }
                    }
                    send(&mr, place(n), 3)
                })?,
                GFP_KERNEL,
            )?;
        }
        for _ in 0..15 {
            exporter.revoke(SOON_MS)?;
            exporter.unrevoke()?;
            come_and_go(&nic, &exporter, Mode::Dynamic, 1)?;
        }
        over.happen();
        for writer in writers {
            ensure!(writer.join()??);
        }
        drop(mr);
        exporter.settle()
    }

    #[test]
    fn revocable_regions_come_go_and_are_revoked() -> Verdict {
        let nic = Arc::new(Nic::new()?, GFP_KERNEL)?;
        let exporter = buffer()?;
        let mut users = KVec::new();

        for _ in 0..WRITERS {
            let (nic, exporter) = (nic.clone(), exporter.clone());

            users.push(
                Thread::spawn(move || -> Result<bool> {
                    for _ in 0..25 {
                        let wish = Wish::all_of(&exporter);
                        let mr = match nic.register(&exporter, wish, Mode::Revocable) {
                            Ok(mr) => mr,
                            Err(error) if error == ENODEV => continue,
                            Err(error) => return Err(error),
                        };

                        // Any of these may find the memory gone.
                        let result = mr.write(BASE, &packet(7));
                        if !(result.is_ok() || result == Err(ENODEV)) {
                            return result.map(|()| true);
                        }
                        if mr.key().revocations() > 1 || mr.key().unmaps() > mr.key().maps() {
                            return Ok(false);
                        }
                    }
                    Ok(true)
                })?,
                GFP_KERNEL,
            )?;
        }
        for _ in 0..40 {
            exporter.invalidate();
        }
        for user in users {
            ensure!(user.join()??);
        }
        ensure!(exporter.pins() == 0);
        ensure!(exporter.mapped() == 0);
        exporter.settle()
    }
}
