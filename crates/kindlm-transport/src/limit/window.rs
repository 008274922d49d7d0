//! The number of concurrent requests that a provider accepts. It is learned from answers and refusals.
//!
//! The window uses additive increase and multiplicative decrease, as TCP does (RFC 5681). A refusal sets the threshold
//! to half of the load, and shrinks the window to the threshold or below. Below the threshold, a full window of answers
//! doubles the window. Above the threshold, a full window of answers adds an eighth of the threshold. At the largest
//! load without refusals, the window grows more slowly, so that probing causes few refusals.

use std::num::NonZeroU32;

/// The minimum number of answers before the window grows beyond its `ceiling`. This limits the share of refused
/// requests to about one in 64.
const CAUTION: f64 = 64.0;

/// The current limit of requests in flight, with the state for its changes.
#[derive(Clone, Debug)]
pub(super) struct Window {
    size: f64,
    /// The configured maximum.
    most: f64,
    /// The size up to which the window doubles.
    threshold: f64,
    /// The largest load for which no refusal is recorded.
    ceiling: u32,
    /// The number of decreases. A request that was sent before a decrease cannot halve the window again.
    epoch: u64,
}

/// The state at the time when a request was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sent {
    /// The requests in flight, including this request.
    load: u32,
    epoch: u64,
}

impl Window {
    /// Creates a window of the configured maximum size; unlimited without a maximum.
    pub(super) fn new(most: Option<NonZeroU32>) -> Self {
        let most = f64::from(most.map_or(u32::MAX, NonZeroU32::get));
        Self { size: most, most, threshold: most, ceiling: u32::MAX, epoch: 0 }
    }

    /// Returns the number of requests that may be in flight.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the size is from 1 to `u32::MAX`, and a request is sent whole or not at all"
    )]
    pub(super) fn size(&self) -> u32 {
        self.size as u32
    }

    /// Returns true if one more request may be sent. A retried request is never used to probe a larger load.
    pub(super) fn has_room(&self, in_flight: u32, refused_before: bool) -> bool {
        let size = if refused_before { self.size().min(self.ceiling) } else { self.size() };
        in_flight < size
    }

    /// Returns the state to store with a request that is sent now. `load` is the number of requests in flight,
    /// including this request.
    pub(super) fn send(&self, load: u32) -> Sent {
        Sent { load, epoch: self.epoch }
    }

    /// Records an answer. Widens the window if at least half of the window was used when the request was sent.
    pub(super) fn answered(&mut self, sent: Sent) {
        self.ceiling = self.ceiling.max(sent.load);
        // A mostly unused window gives no evidence for a wider window.
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

    /// Records a refusal with a requested wait, and halves the window. Later refusals of requests that were already in
    /// flight do not halve the window again. `in_flight` includes this request.
    pub(super) fn record_requested_wait(&mut self, sent: Sent, in_flight: u32) {
        if sent.epoch == self.epoch {
            self.epoch += 1;
            self.threshold = f64::from(sent.load.max(in_flight) / 2).max(1.0);
            self.size = self.size.min(self.threshold);
        }
    }

    /// Records a refusal, and narrows the window. Returns true if the refused request was the only one in flight.
    ///
    /// `in_flight` includes this request. The only request in flight was refused because it came too soon, not because
    /// of too many concurrent requests.
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
        // The provider's capacity is at most the number of requests that it still processes.
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

    /// Fills the window with requests, and returns the number of refusals. The provider accepts `capacity` requests at
    /// once.
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
    fn a_refused_burst_narrows_the_window_to_the_capacity() {
        for (most, capacity) in [(64, 8), (256, 8), (64, 40), (10, 1), (2, 1)] {
            let mut window = window(most);
            assert_eq!(round(&mut window, capacity), most - capacity);
            let expected = capacity.min(most / 2)..=capacity.min(most / 2) + capacity;
            assert!(expected.contains(&window.size()), "{most} {capacity}: {}", window.size());
        }
    }

    #[test]
    fn settles_at_the_capacity_and_probes_rarely() {
        for capacity in [1_u32, 2, 8, 50] {
            let mut window = window(64);
            for _ in 0..50 {
                round(&mut window, capacity);
            }
            let refused: u32 = (0..400).map(|_| round(&mut window, capacity)).sum();
            let sent = 400 * capacity;
            assert!(refused * 20 < sent, "{capacity}: {refused} of about {sent}");
            assert!(refused > 0, "{capacity}: the window never probes");
        }
    }

    #[test]
    fn follows_a_provider_whose_capacity_grows() {
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
        // The earlier refusal of 5 requests no longer limits the window.
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
    fn refusals_of_one_burst_narrow_the_window_once() {
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
    fn refused_sizes_are_not_probed_again() {
        let mut window = window(9);
        round(&mut window, 8);
        while window.size() < 9 {
            assert_eq!(round(&mut window, 8), 0);
        }
        assert!(window.has_room(8, false) && !window.has_room(8, true));
    }
}
