//! Tickets: how many operations may be in the engine at once (facts/server.md 7.1).

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};

/// A pool of tickets, with a first-come-first-served queue.
#[derive(Debug)]
pub struct TicketPool {
    state: Mutex<State>,
    /// Told whenever a ticket comes back, for a resize that waits for it.
    returned: Notify,
}

#[derive(Debug)]
struct State {
    total: i64,
    out: i64,
    waiting: VecDeque<(u64, oneshot::Sender<()>)>,
    next_waiter: u64,
    counters: Counters,
}

/// What happened to a pool since the server started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Requests that had to queue.
    pub queued: u64,
    /// Requests that left the queue without a ticket.
    pub canceled: u64,
    /// Tickets given out.
    pub granted: u64,
}

/// A ticket; dropping it gives it back.
#[derive(Debug)]
pub struct Ticket {
    pool: Arc<TicketPool>,
}

/// A place in the queue; dropping it leaves the queue.
#[derive(Debug)]
pub struct Queued {
    pool: Arc<TicketPool>,
    number: Option<u64>,
    granted: oneshot::Receiver<()>,
}

/// The answer to a request for a ticket.
#[derive(Debug)]
pub enum Request {
    /// There was one.
    Ticket(Ticket),
    /// All are out, or others were there before.
    Queued(Queued),
}

impl TicketPool {
    /// A pool of `total` tickets.
    pub fn new(total: i64) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State {
                total,
                out: 0,
                waiting: VecDeque::new(),
                next_waiter: 0,
                counters: Counters::default(),
            }),
            returned: Notify::new(),
        })
    }

    /// Asks for a ticket.
    pub fn request(self: &Arc<Self>) -> Request {
        let mut state = self.state.lock();
        if state.waiting.is_empty() && state.out < state.total {
            state.out += 1;
            state.counters.granted += 1;
            return Request::Ticket(Ticket { pool: Arc::clone(self) });
        }
        let (sender, granted) = oneshot::channel();
        let number = state.next_waiter;
        state.next_waiter += 1;
        state.counters.queued += 1;
        state.waiting.push_back((number, sender));
        Request::Queued(Queued { pool: Arc::clone(self), number: Some(number), granted })
    }

    /// Changes the number of tickets. Shrinking waits, uninterruptibly, for tickets to come back.
    pub async fn resize(&self, total: i64) {
        loop {
            let returned = self.returned.notified();
            {
                let mut state = self.state.lock();
                state.total = total;
                state.grant_waiting();
                if state.out <= total {
                    return;
                }
            }
            returned.await;
        }
    }

    /// (out, available, total).
    pub fn usage(&self) -> (i64, i64, i64) {
        let state = self.state.lock();
        (state.out, (state.total - state.out).max(0), state.total)
    }

    /// How many wait.
    pub fn queue_length(&self) -> u64 {
        self.state.lock().waiting.len() as u64
    }

    /// What happened so far.
    pub fn counters(&self) -> Counters {
        self.state.lock().counters
    }
}

impl State {
    fn grant_waiting(&mut self) {
        while self.out < self.total {
            let Some((_, waiter)) = self.waiting.pop_front() else { return };
            if waiter.send(()).is_ok() {
                self.out += 1;
                self.counters.granted += 1;
            }
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut state = self.pool.state.lock();
        state.out -= 1;
        state.grant_waiting();
        drop(state);
        self.pool.returned.notify_waiters();
    }
}

impl Queued {
    /// Waits for the ticket without leaving the queue when the future is dropped: the wait is done in slices.
    pub async fn granted(&mut self) -> Ticket {
        // The sender stays in the queue for as long as `self` does, so this cannot fail.
        let _ = (&mut self.granted).await;
        self.number = None;
        Ticket { pool: Arc::clone(&self.pool) }
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        let Some(number) = self.number else { return };
        let mut state = self.pool.state.lock();
        if self.granted.try_recv().is_ok() {
            drop(state);
            drop(Ticket { pool: Arc::clone(&self.pool) });
        } else {
            state.waiting.retain(|(waiter, _)| *waiter != number);
            state.counters.canceled += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    fn take(pool: &Arc<TicketPool>) -> Ticket {
        match pool.request() {
            Request::Ticket(ticket) => ticket,
            Request::Queued(_) => panic!("no ticket"),
        }
    }

    fn queue(pool: &Arc<TicketPool>) -> Queued {
        match pool.request() {
            Request::Ticket(_) => panic!("a ticket was there"),
            Request::Queued(queued) => queued,
        }
    }

    #[tokio::test]
    async fn tickets_come_in_order_of_asking() {
        let pool = TicketPool::new(1);
        let ticket = take(&pool);
        let (mut second, mut third) = (queue(&pool), queue(&pool));
        assert_eq!(pool.queue_length(), 2);
        drop(ticket);
        let ticket = second.granted().await;
        assert!(third.granted.try_recv().is_err());
        drop(ticket);
        drop(third.granted().await);
        assert_eq!(pool.usage(), (0, 1, 1));
    }

    #[tokio::test]
    async fn a_ticket_granted_to_one_who_left_is_not_lost() {
        let pool = TicketPool::new(1);
        let ticket = take(&pool);
        let (second, mut third) = (queue(&pool), queue(&pool));
        drop(ticket); // granted to the second …
        drop(second); // … who does not want it any more
        drop(third.granted().await);
        assert_eq!(pool.usage(), (0, 1, 1));
    }

    #[tokio::test]
    async fn leaving_the_queue_is_counted() {
        let pool = TicketPool::new(1);
        let ticket = take(&pool);
        drop(queue(&pool));
        assert_eq!(pool.counters(), Counters { queued: 1, canceled: 1, granted: 1 });
        drop(ticket);
        assert_eq!(pool.usage(), (0, 1, 1));
    }

    #[tokio::test]
    async fn growing_lets_waiters_in_and_shrinking_waits() {
        let pool = TicketPool::new(1);
        let first = take(&pool);
        let mut second = queue(&pool);
        pool.resize(2).await;
        let second = second.granted().await;
        let mut shrink = Box::pin(pool.resize(1));
        assert!((&mut shrink).now_or_never().is_none());
        drop(first);
        shrink.await;
        drop(second);
        assert_eq!(pool.usage(), (0, 1, 1));
    }
}
