//! The engine of one lane: two directions, their memory, and what the control socket asks of them.

use std::path::Path;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

use serde_json::{json, Map, Value};

use crate::arena::Arena;
use crate::clock::{Clock, SystemClock};
use crate::config::{Config, DIRECTIONS};
use crate::direction::{Direction, Order, Shared};
use crate::egress::Egress;
use crate::error::Error;
use crate::memory_budget::{check_memory, MemoryBudget};
use crate::processors::{apart, choose, Claims, Processors};
use crate::receiver::Ingress;
use crate::ring_geometry::Demand;
use crate::settings::DirectionSettings;
use crate::stats::Stats;
use crate::sys;
use crate::thread::Priority;

/// A lane at work.
pub struct Engine {
    config: Config,
    shared: [Arc<Shared>; 2],
    /// What each band of each direction counts with.
    stats: [Vec<Arc<Stats>>; 2],
    budgets: [MemoryBudget; 2],
    threads: Vec<JoinHandle<()>>,
    /// The ports that the directions receive.
    ports: [i32; 2],
    /// What it takes to keep the processors that the threads have.
    _claims: Option<Claims>,
}

impl Engine {
    /// Takes memory, opens the ports and starts to work; `claims` is the file of who has which processor.
    pub fn start(config: Config, claims: &Path) -> Result<Engine, Error> {
        let index = |name: &str| sys::interface_index(name).ok_or_else(|| Error::NoInterface(name.to_string()));
        let ports = [index(&config.hub)?, index(&config.site)?];
        // Also while it takes memory for a change, which is not to wait for others.
        Priority::default().raise();
        let arena =
            |way: usize| Arena::new(config.directions[way].memory_bytes).map_err(Error::in_direction(DIRECTIONS[way]));
        let arenas = [arena(0)?, arena(1)?];
        let mut budgets = [0, 1].map(|way: usize| MemoryBudget::new(arenas[way].memory(), sys::tick_ns()));
        let ingresses = take(&mut budgets, &config.directions, ports)?;
        let (claims, own) = own_processors(config.spare_processors as usize, claims);
        let stats = [0, 1].map(|way: usize| stats_of(&config.directions[way], None));
        let mut engine = Engine {
            config,
            shared: [Arc::new(Shared::default()), Arc::new(Shared::default())],
            stats,
            budgets,
            threads: Vec::new(),
            ports,
            _claims: claims,
        };
        for (way, (ingress, arena)) in ingresses.into_iter().flatten().zip(arenas).enumerate() {
            engine.start_direction(way, ingress, arena, own.map(|processors| processors[way]))?;
        }
        Ok(engine)
    }

    fn start_direction(&mut self, way: usize, ingress: Ingress, arena: Arena, own: Option<usize>) -> Result<(), Error> {
        let failed = Error::in_direction(DIRECTIONS[way]);
        let order = self.order(way, &self.config.directions[way], SystemClock.now(), None);
        let egress = Egress::new(self.ports[1 - way]).map_err(&failed)?;
        let mut direction = Direction::new(ingress, egress, arena, &order, self.shared[way].clone(), sys::tick_ns());
        let thread = Builder::new().name(DIRECTIONS[way].to_string()).spawn(move || direction.run(own));
        self.threads.push(thread.map_err(&failed)?);
        Ok(())
    }

    fn order(&self, way: usize, settings: &DirectionSettings, from: u64, ingress: Option<Ingress>) -> Order {
        Order { settings: settings.clone(), stats: self.stats[way].clone(), from, ingress }
    }

    /// Whether both ports are still the interfaces that they were.
    pub fn has_ports(&self) -> bool {
        [&self.config.hub, &self.config.site].iter().zip(self.ports).all(|(n, i)| sys::interface_index(n) == Some(i))
    }

    /// The lane as it is.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Changes both directions at one instant; memory first, so that there is no gap.
    pub fn set(&mut self, wanted: [DirectionSettings; 2]) -> Result<(), Error> {
        self.tidy();
        let ingresses = apart(&self.thread_ids(), || take(&mut self.budgets, &wanted, self.ports))?;
        let from = SystemClock.now();
        for (way, ingress) in ingresses.into_iter().enumerate() {
            let before = (&self.config.directions[way], &self.stats[way][..]);
            self.stats[way] = stats_of(&wanted[way], Some(before));
            self.shared[way].order(self.order(way, &wanted[way], from, ingress));
        }
        self.config.directions = wanted;
        Ok(())
    }

    fn thread_ids(&self) -> [i32; 2] {
        [0, 1].map(|way: usize| self.shared[way].thread.load(SeqCst))
    }

    /// Forgets what the directions have done with: the kernel waits until no processor uses it, and frees its memory.
    pub fn tidy(&self) {
        let done: Vec<Ingress> = self.shared.iter().flat_map(|shared| shared.take_done()).collect();
        if !done.is_empty() {
            apart(&self.thread_ids(), || drop(done));
        }
    }

    /// What both directions counted: what belongs to no flow, and in `flows` what belongs to each.
    pub fn stats(&self) -> Value {
        let one = |way: usize| -> Value {
            let mut all = self.stats[way].iter().map(|stats| stats.to_json());
            let mut fields: Map<String, Value> = all.next().unwrap_or_default();
            fields.insert("flows".to_string(), all.collect());
            fields.insert("ring_bytes".to_string(), json!(self.budgets[way].ring_bytes()));
            fields.insert("not_permitted".to_string(), json!(self.shared[way].priority.refusals()));
            Value::Object(fields)
        };
        json!({ DIRECTIONS[0]: one(0), DIRECTIONS[1]: one(1) })
    }

    /// Takes no more frames in; true once all that were inside have left.
    pub fn drain(&mut self) -> bool {
        self.shared.iter().for_each(|s| s.stop.store(true, SeqCst));
        self.threads.iter().all(|t| t.is_finished())
    }
}

/// The counters of each band of a direction: those of a flow that is found as before go on.
fn stats_of(wanted: &DirectionSettings, before: Option<(&DirectionSettings, &[Arc<Stats>])>) -> Vec<Arc<Stats>> {
    let mut old: Vec<_> = before.map_or(Vec::new(), |(settings, stats)| {
        settings.flows.iter().map(|flow| &flow.filters).zip(&stats[1..]).collect()
    });
    let rest = before.map_or_else(Arc::default, |(_, stats)| stats[0].clone());
    let flows = wanted.flows.iter().map(|flow| {
        let known = old.iter().position(|(filters, _)| **filters == flow.filters);
        known.map_or_else(Arc::default, |at| old.remove(at).1.clone())
    });
    std::iter::once(rest).chain(flows).collect()
}

/// Takes both directions' memory; then, at once, what is new of what receives their ports begins to.
fn take(
    budgets: &mut [MemoryBudget; 2],
    settings: &[DirectionSettings; 2],
    ports: [i32; 2],
) -> Result<[Option<Ingress>; 2], Error> {
    let demands = [Demand::of(&settings[0]), Demand::of(&settings[1])];
    check_memory((0..2).map(|way| budgets[way].needs(&demands[way])).sum())?;
    let mut ingresses = [None, None];
    for way in 0..2 {
        ingresses[way] = budgets[way].take(&demands[way]).map_err(Error::in_direction(DIRECTIONS[way]))?;
    }
    for way in 0..2 {
        let opened = ingresses[way].as_mut().map_or(Ok(()), |ingress| ingress.open(ports[way]));
        opened.map_err(Error::in_direction(DIRECTIONS[way]))?;
    }
    for (budget, ingress) in budgets.iter_mut().zip(&ingresses) {
        ingress.iter().for_each(|ingress| budget.keep(ingress));
    }
    Ok(ingresses)
}

/// A processor for each direction, where there are enough, and what keeps them; nothing else of ours runs there then.
fn own_processors(spare: usize, claims: &Path) -> (Option<Claims>, Option<[usize; 2]>) {
    let allowed = Processors::allowed(0);
    let mut file = None;
    let own = choose(allowed, spare, |number| {
        file = file.take().or_else(|| Claims::open(claims).ok());
        file.as_ref().map_or(false, |claims: &Claims| claims.claim(number))
    });
    match own {
        Some(own) => {
            let rest = allowed.without(Processors::of(&own));
            if rest != Processors::default() {
                rest.allow(0);
            }
            (file, Some(own))
        }
        None => (None, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow_filter::Filter;
    use crate::settings::Flow;

    fn with_flows(vlans: &[u16]) -> DirectionSettings {
        let filter = |&vlan: &u16| Filter { vlan: Some(vlan), ..Filter::default() };
        let flow = |vlan: &u16| Flow { filters: vec![filter(vlan)], ..Flow::default() };
        DirectionSettings { flows: vlans.iter().map(flow).collect(), ..DirectionSettings::default() }
    }

    #[test]
    fn a_flow_that_is_found_as_before_goes_on_counting() {
        let (old, new) = (with_flows(&[1, 2, 2]), with_flows(&[3, 2, 1, 2, 2]));
        let before = stats_of(&old, None);
        let after = stats_of(&new, Some((&old, &before)));
        let from = |at: usize| before.iter().position(|stats| Arc::ptr_eq(stats, &after[at]));
        assert_eq!((0..6).map(from).collect::<Vec<_>>(), [Some(0), None, Some(2), Some(1), Some(3), None]);
    }
}
