//! Enumerates the distinct disks that a power cut at this moment could leave.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;

use super::SimFs;
use super::choice::{CrashChoice, CrashLimits, Fate, combinations, fates, name_subsets};
use super::content::SimContent;
use super::image::{self, Image};
use super::names::Ino;
use super::rng::Rng;
use super::shared_bytes::SharedBytes;
use super::state::{InodeBody, SimState};

/// One distinct content that a file may have after the crash.
struct Variant {
    fates: Arc<[Fate]>,
    bytes: Arc<SharedBytes>,
}

/// The distinct contents of one file, and which of them are the extremes (which may be equal).
struct Variants {
    list: Vec<Variant>,
    all_dropped: usize,
    all_kept: usize,
}

/// One distinct set of names after the crash, with the variants of each open file among them.
struct CrashPlan<'v> {
    names: Arc<[bool]>,
    image: Image,
    /// Per open file of the image.
    variants: Vec<&'v Variants>,
    /// What each variant adds to the image's digest.
    digests: Vec<Vec<u64>>,
}

impl SimFs {
    /// Calls `visit` once per distinct state that a power cut now could leave, each an independent
    /// disk on which everything is durable. Returns how many there were. The same disk and limits
    /// give the same images in the same order.
    pub fn for_each_crash_image(
        &self,
        limits: &CrashLimits,
        visit: &mut dyn FnMut(CrashChoice, SimFs),
    ) -> usize {
        let state = self.state().without_locks();
        let mut rng = Rng::new(limits.seed);
        let variants = file_variants(&state, limits, &mut rng);
        let plans = plans(&state, &variants, limits, &mut rng);
        let mut seen = BTreeSet::new();
        let mut emit = |plan: &CrashPlan<'_>, picks: &[usize]| {
            let added = plan.digests.iter().zip(picks).map(|(digests, pick)| digests[*pick]);
            if seen.insert(plan.image.digest_with(added)) {
                let (choice, image) = plan.image_for(picks);
                visit(choice, Self::from_state(image));
            }
        };
        let total = plans.iter().fold(0_usize, |total, plan| total.saturating_add(plan.product()));
        if total <= limits.max_product {
            for plan in &plans {
                plan.for_each_pick(&mut |picks| emit(plan, picks));
            }
        } else {
            sample(&plans, limits, &mut rng, &mut emit);
        }
        seen.len()
    }

    /// The images of `for_each_crash_image` as a list, for tests with few of them.
    pub fn crash_images(&self, limits: &CrashLimits) -> Vec<SimFs> {
        let mut images = Vec::new();
        self.for_each_crash_image(limits, &mut |_, image| images.push(image));
        images
    }

    /// The one image that a given choice leaves, to reproduce a failure.
    pub fn crash(&self, choice: &CrashChoice) -> SimFs {
        let state = self.state().without_locks();
        let image = Image::new(&state, &state.journal.after(&state.durable, &choice.names));
        let bytes = image.open.iter().map(|file| {
            let fates = choice.writes.iter().find(|(ino, _)| *ino == file.ino.0);
            let InodeBody::File(content) = &state.inode(file.ino).body else {
                unreachable!("only regular files have changes")
            };
            Arc::new(SharedBytes::new(content.after(fates.map_or(&[], |(_, fates)| fates))))
        });
        Self::from_state(image.finish(bytes))
    }

    /// Identifies an image by a digest of everything that can be read: paths, kinds and contents.
    pub fn digest(&self) -> u64 {
        image::seen_digest(&self.state())
    }

    /// The pending operations in words, for the message of a failing proof.
    pub fn describe_pending(&self) -> String {
        let state = self.state();
        let mut text = String::new();
        for pending in state.journal.iter() {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{:?} {:?}", pending.sync_state, pending.op);
        }
        image::for_each_name(&state.seen, &mut |path, ino| {
            let changes = match &state.inode(ino).body {
                InodeBody::File(content) => content.changes(),
                InodeBody::Dir | InodeBody::Other => &[],
            };
            if !changes.is_empty() {
                let _ = writeln!(text, "{ino:?} `{path}`: {} data changes not durable", changes.len());
            }
        });
        text
    }
}

/// The distinct contents of every file that has changes which are not durable.
fn file_variants(state: &SimState, limits: &CrashLimits, rng: &mut Rng) -> BTreeMap<Ino, Variants> {
    let mut all = BTreeMap::new();
    for (ino, inode) in &state.inodes {
        match &inode.body {
            InodeBody::File(content) if !content.changes().is_empty() => {
                all.insert(*ino, Variants::of(content, limits, rng));
            }
            InodeBody::File(_) | InodeBody::Dir | InodeBody::Other => {}
        }
    }
    all
}

impl Variants {
    fn of(content: &SimContent, limits: &CrashLimits, rng: &mut Rng) -> Self {
        let changes = content.changes().iter();
        let options: Vec<Vec<Fate>> =
            changes.map(|(change, sync_state)| fates(change, *sync_state, limits, rng)).collect();
        let mut list = Vec::new();
        let mut index_of = BTreeMap::new();
        let mut all_kept = 0;
        for fates in combinations(&options, limits, rng) {
            let bytes = Arc::new(SharedBytes::new(content.after(&fates)));
            // The last combination keeps everything, even if an earlier variant equals it.
            all_kept = *index_of.entry(bytes.digest()).or_insert(list.len());
            if all_kept == list.len() {
                list.push(Variant { fates: fates.into(), bytes });
            }
        }
        // The first combination drops everything, and is the first of the list.
        Self { list, all_dropped: 0, all_kept }
    }
}

/// The distinct sets of names, all kept first and none kept second (unless these are the same).
fn plans<'v>(
    state: &SimState,
    variants: &'v BTreeMap<Ino, Variants>,
    limits: &CrashLimits,
    rng: &mut Rng,
) -> Vec<CrashPlan<'v>> {
    let mut plans = Vec::new();
    let mut seen = BTreeSet::new();
    for names in name_subsets(state.journal.open_count(), limits, rng) {
        let table = state.journal.after(&state.durable, &names);
        let mut tree = Vec::new();
        image::for_each_name(&table, &mut |path, ino| tree.push((path.to_owned(), ino)));
        if !seen.insert(tree) {
            continue;
        }
        let image = Image::new(state, &table);
        let variants: Vec<&Variants> = image.open.iter().map(|file| &variants[&file.ino]).collect();
        let digest = |(file, variants): (&image::OpenFile, &&Variants)| {
            variants.list.iter().map(|variant| file.digest(&variant.bytes)).collect()
        };
        let digests = image.open.iter().zip(&variants).map(digest).collect();
        plans.push(CrashPlan { names: names.into(), image, variants, digests });
    }
    plans
}

impl CrashPlan<'_> {
    fn product(&self) -> usize {
        self.variants.iter().fold(1, |product, variants| product.saturating_mul(variants.list.len()))
    }

    fn all_dropped(&self) -> Vec<usize> {
        self.variants.iter().map(|variants| variants.all_dropped).collect()
    }

    fn all_kept(&self) -> Vec<usize> {
        self.variants.iter().map(|variants| variants.all_kept).collect()
    }

    fn for_each_pick(&self, visit: &mut dyn FnMut(&[usize])) {
        let mut picks = vec![0; self.variants.len()];
        loop {
            visit(&picks);
            // An odometer: advance the first wheel that has a next position, reset those before it.
            let Some(wheel) = (0..picks.len()).find(|i| picks[*i] + 1 < self.variants[*i].list.len()) else {
                return;
            };
            picks[wheel] += 1;
            picks[..wheel].fill(0);
        }
    }

    fn image_for(&self, picks: &[usize]) -> (CrashChoice, SimState) {
        let picked = || self.variants.iter().zip(picks).map(|(variants, pick)| &variants.list[*pick]);
        let writes =
            self.image.open.iter().zip(picked()).map(|(file, variant)| (file.ino.0, variant.fates.clone()));
        let choice = CrashChoice { names: self.names.clone(), writes: writes.collect() };
        (choice, self.image.finish(picked().map(|variant| variant.bytes.clone())))
    }
}

/// The corners of every plan, each single variant among its extremes, then seeded random picks.
fn sample(
    plans: &[CrashPlan<'_>],
    limits: &CrashLimits,
    rng: &mut Rng,
    emit: &mut dyn FnMut(&CrashPlan<'_>, &[usize]),
) {
    let mut tried = 0;
    let mut emit = |plan: &CrashPlan<'_>, picks: &[usize]| {
        tried += 1;
        emit(plan, picks);
        tried
    };
    for plan in plans {
        emit(plan, &plan.all_kept());
        emit(plan, &plan.all_dropped());
    }
    // All names kept: where a torn write can do most harm.
    if let Some(plan) = plans.first() {
        for (i, variants) in plan.variants.iter().enumerate() {
            for pick in 0..variants.list.len() {
                for mut picks in [plan.all_kept(), plan.all_dropped()] {
                    picks[i] = pick;
                    emit(plan, &picks);
                }
            }
        }
    }
    loop {
        let plan = &plans[rng.below(plans.len())];
        let picks: Vec<usize> = plan.variants.iter().map(|variants| rng.below(variants.list.len())).collect();
        if emit(plan, &picks) >= limits.max_product {
            return;
        }
    }
}
