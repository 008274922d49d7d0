//! How many requests a provider can take at the same time, found out by asking.
//!
//! Additive increase, multiplicative decrease, as TCP has it (RFC 5681): a refusal halves the window, and
//! answers widen it again, doubling it up to that half and then by an eighth of it per window of answers. At the
//! largest load that is not known to be too much it stays for a while, so that probing costs few refusals.

use std::num::NonZeroU32;

/// How many answers it takes to go beyond the ceiling, at least: at most one of so many is a refusal.
const CAUTION: f64 = 64.0;

/// How many requests may be in flight.
#[derive(Clone, Debug)]
pub(super) struct Window {
    size: f64,
    /// As configured.
    most: f64,
    /// Below it the window doubles.
    threshold: f64,
    /// The largest load that is not known to be too much.
    ceiling: u32,
    /// Counts the decreases. What was sent before a decrease cannot cause another one.
    epoch: u64,
}

/// What a request remembers of the moment when it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sent {
    /// Requests in flight, itself included.
    load: u32,
    epoch: u64,
}

impl Window {
    /// As wide as configured: a provider is trusted until it refuses.
    pub(super) fn new(most: Option<NonZeroU32>) -> Self {
        let most = f64::from(most.map_or(u32::MAX, NonZeroU32::get));
        Self { size: most, most, threshold: most, ceiling: u32::MAX, epoch: 0 }
    }

    /// The number of requests that may be in flight.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the size is from 1 to `u32::MAX`, and a request is sent whole or not at all"
    )]
    pub(super) fn size(&self) -> u32 {
        self.size as u32
    }

    /// True if one more may be sent. One that was refused before is never used to probe.
    pub(super) fn has_room(&self, in_flight: u32, refused_before: bool) -> bool {
        let size = if refused_before { self.size().min(self.ceiling) } else { self.size() };
        in_flight < size
    }

    /// One is sent; `load` are in flight with it.
    pub(super) fn send(&self, load: u32) -> Sent {
        Sent { load, epoch: self.epoch }
    }

    /// It was answered.
    pub(super) fn answered(&mut self, sent: Sent) {
        self.ceiling = self.ceiling.max(sent.load);
        // A window that is not used says nothing about a wider one.
        if self.size >= self.most || f64::from(sent.load) * 2.0 < self.size {
            return;
        }
        let widening = if self.size < self.threshold {
            1.0
        } else {
            (self.threshold / 8.0).max(1.0) / self.size
        };
        let at_ceiling = self.size() == self.ceiling;
        let widening = if at_ceiling { (widening / 8.0).min(1.0 / CAUTION) } else { widening };
        self.size = (self.size + widening).min(self.most);
    }

    /// It was refused, and the provider said when to come back; `in_flight` are in flight, itself included. What is sent then is half as much, and no less. That
    /// several were refused says nothing about how many can be taken later.
    pub(super) fn told_to_wait(&mut self, sent: Sent, in_flight: u32) {
        if sent.epoch == self.epoch {
            self.epoch += 1;
            self.threshold = f64::from(sent.load.max(in_flight) / 2).max(1.0);
            self.size = self.size.min(self.threshold);
        }
    }

    /// It was refused; `in_flight` are in flight, itself included. Says whether it was the only one.
    ///
    /// One that is refused alone says that it came too soon, not that there were too many.
    pub(super) fn refused(&mut self, sent: Sent, in_flight: u32) -> bool {
        let left = in_flight.saturating_sub(1);
        let load = sent.load.max(in_flight);
        if sent.epoch == self.epoch {
            self.epoch += 1;
            if load > 1 {
                self.threshold = f64::from(load / 2).max(1.0);
                self.ceiling = load - 1;
                self.size = self.size.min(self.threshold);
            }
        }
        // The provider has taken no more than what it is still at work on.
        self.size = self.size.min(f64::from(left.max(1)));
        left == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(most: u32) -> Window {
        Window::new(NonZeroU32::new(most))
    }

    /// Sends as many as fit at once, to a provider that takes `capacity`; gives back how many were refused.
    fn round(window: &mut Window, capacity: u32) -> u32 {
        let load = window.size();
        let sent: Vec<Sent> = (1..=load).map(|it| window.send(it)).collect();
        let taken = load.min(capacity);
        let mut in_flight = load;
        for refused in &sent[taken as usize..] {
            window.refused(*refused, in_flight);
            in_flight -= 1;
        }
        for answered in &sent[..taken as usize] {
            window.answered(*answered);
        }
        load - taken
    }

    #[test]
    fn begins_as_wide_as_configured_and_never_gets_wider() {
        assert_eq!(Window::new(None).size(), u32::MAX);
        let mut window = window(3);
        for _ in 0..10 {
            assert_eq!(round(&mut window, 100), 0);
            assert_eq!(window.size(), 3);
        }
        assert!(window.has_room(2, false) && !window.has_room(3, false));
    }

    #[test]
    fn a_burst_that_is_refused_narrows_it_to_what_was_taken() {
        for (most, capacity) in [(64, 8), (256, 8), (64, 40), (10, 1), (2, 1)] {
            let mut window = window(most);
            assert_eq!(round(&mut window, capacity), most - capacity);
            let expected = capacity.min(most / 2)..=capacity.min(most / 2) + capacity;
            assert!(expected.contains(&window.size()), "{most} {capacity}: {}", window.size());
        }
    }

    #[test]
    fn settles_at_what_is_taken_and_probes_seldom() {
        for capacity in [1_u32, 2, 8, 50] {
            let mut window = window(64);
            for _ in 0..50 {
                round(&mut window, capacity);
            }
            let refused: u32 = (0..400).map(|_| round(&mut window, capacity)).sum();
            let sent = 400 * capacity;
            assert!(refused * 20 < sent, "{capacity}: {refused} of about {sent}");
            assert!(refused > 0, "{capacity}: it never probes");
        }
    }

    #[test]
    fn follows_a_provider_that_can_take_more() {
        let mut window = window(64);
        for _ in 0..20 {
            round(&mut window, 4);
        }
        let mut rounds = 0;
        while window.size() < 64 {
            round(&mut window, 1000);
            rounds += 1;
            assert!(rounds < 400, "{window:?}");
        }
        // It has forgotten that 5 were too many.
        round(&mut window, 1000);
        assert!(window.has_room(63, true));
    }

    #[test]
    fn recovers_fast_from_an_outage() {
        let mut window = window(256);
        round(&mut window, 0);
        assert_eq!(window.size(), 1);
        for _ in 0..3 {
            let lone = window.send(1);
            assert!(window.refused(lone, 1));
        }
        let mut rounds = 0;
        while window.size() < 256 {
            round(&mut window, 1000);
            rounds += 1;
        }
        assert!(rounds <= 32, "{rounds}");
    }

    #[test]
    fn what_was_sent_together_narrows_it_once() {
        let mut window = window(100);
        let sent: Vec<Sent> = (1..=100).map(|it| window.send(it)).collect();
        assert!(!window.refused(sent[99], 100));
        assert!(!window.refused(sent[98], 99));
        assert_eq!(window.size(), 50);
        let later = window.send(50);
        assert!(!window.refused(later, 50));
        assert_eq!(window.size(), 25);
    }

    #[test]
    fn a_window_that_is_not_used_does_not_widen() {
        let mut window = window(64);
        round(&mut window, 20);
        let before = window.size();
        for _ in 0..1000 {
            let sent = window.send(1);
            window.answered(sent);
        }
        assert_eq!(window.size(), before);
    }

    #[test]
    fn what_was_refused_is_not_used_to_probe() {
        let mut window = window(9);
        round(&mut window, 8);
        while window.size() < 9 {
            assert_eq!(round(&mut window, 8), 0);
        }
        assert!(window.has_room(8, false) && !window.has_room(8, true));
    }
}
