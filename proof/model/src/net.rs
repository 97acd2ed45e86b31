//! What is under way between the clients and one node.
//!
//! Between one client and the node, each way, messages are in the order in which they were sent; nothing
//! else about when they were sent is kept, so that two states which differ only in that are one state.
//! The first of any client and way may arrive next; that another one does is an action of its own.

/// The most that is under way at one node. What is sent beyond that is lost, as messages may be.
const ROOM: usize = 16;

/// Two bits of [`Message::lane`] that say which client; the third says which way.
const WAY: u8 = 4;

/// What a message says. A number that is not there is 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum MessageBody {
    /// To the node: let me hold, or wait in line. A refresh is this too: it finds out the same.
    Acquire {
        /// The least token to grant with.
        hint: u8,
        /// The client's ticket, once it has one.
        ticket: u8,
        /// The grant that it gives back.
        yields: u8,
        /// Whether it takes a place in line.
        waits: bool,
    },
    /// To the node: keep my grant `g` alive, and vote for `token`.
    Renew {
        /// The grant.
        g: u8,
        /// The token to vote for, or 0 for none.
        token: u8,
    },
    /// To the node: I am gone, and held with `token`.
    Release {
        /// The token.
        token: u8,
    },
    /// To the client: you hold.
    Granted {
        /// The grant.
        g: u8,
        /// The token it votes for.
        token: u8,
        /// The ticket it is held at.
        ticket: u8,
        /// Whether somebody with a lower ticket waits.
        inquired: bool,
        /// Whether this is a wake-up and not an answer.
        wake: bool,
    },
    /// To the client that had no ticket: you wait at this one.
    Queued {
        /// The ticket.
        ticket: u8,
    },
    /// To the client, unasked: somebody with a lower ticket waits for your grant `g`.
    Inquire {
        /// The grant.
        g: u8,
    },
    /// To the client: your grant lives on.
    Renewed {
        /// The grant.
        g: u8,
        /// The token voted for, or a larger one that the node knows.
        token: u8,
        /// Whether somebody with a lower ticket waits.
        inquired: bool,
    },
    /// To the client: you do not hold by grant `g`.
    NotHeld {
        /// The grant.
        g: u8,
    },
}

impl MessageBody {
    /// Whether this goes to the node.
    pub fn to_node(self) -> bool {
        matches!(
            self,
            MessageBody::Acquire { .. } | MessageBody::Renew { .. } | MessageBody::Release { .. }
        )
    }
}

/// A message between one client and the node in whose [`ModelNetwork`] it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Message {
    /// The client that sent it or will get it.
    pub client: u8,
    /// What it says.
    pub body: MessageBody,
}

impl Message {
    fn lane(&self) -> u8 {
        self.client + if self.body.to_node() { 0 } else { WAY }
    }
}

const NOTHING: Message = Message { client: 0, body: MessageBody::Release { token: 0 } };

/// The messages under way at one node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ModelNetwork {
    used: u8,
    messages: [Message; ROOM],
}

impl std::hash::Hash for ModelNetwork {
    fn hash<H: std::hash::Hasher>(&self, hasher: &mut H) {
        self.all().hash(hasher);
    }
}

impl ModelNetwork {
    /// Nothing under way.
    pub fn new() -> Self {
        ModelNetwork { used: 0, messages: [NOTHING; ROOM] }
    }

    /// All of it, in order.
    pub fn all(&self) -> &[Message] {
        &self.messages[..usize::from(self.used)]
    }

    /// The first of each client and way, which may arrive next, or all the others.
    pub fn next(&self, first: bool) -> impl Iterator<Item = &Message> {
        let all = self.all();
        let is_first = |at: usize| at == 0 || all[at - 1].lane() != all[at].lane();
        (0..all.len()).filter(move |&at| is_first(at) == first).map(|at| &all[at])
    }

    /// Sends one more. What is under way already in the same words is not sent twice.
    pub fn send(&mut self, client: usize, body: MessageBody) {
        let message = Message { client: client as u8, body };
        let used = usize::from(self.used);
        if used < ROOM && !self.all().contains(&message) {
            let at = self.all().partition_point(|other| other.lane() <= message.lane());
            self.messages.copy_within(at..used, at + 1);
            self.messages[at] = message;
            self.used += 1;
        }
    }

    /// Takes one out.
    pub fn take(&mut self, message: &Message) {
        let used = usize::from(self.used);
        if let Some(at) = self.all().iter().position(|other| other == message) {
            self.messages.copy_within(at + 1..used, at);
            self.used -= 1;
            self.messages[used - 1] = NOTHING;
        }
    }

    /// Forgets what `keep` does not want.
    pub fn retain(&mut self, keep: impl Fn(&Message) -> bool) {
        let before = *self;
        *self = ModelNetwork::new();
        for message in before.all().iter().filter(|message| keep(message)) {
            self.messages[usize::from(self.used)] = *message;
            self.used += 1;
        }
    }
}

impl Default for ModelNetwork {
    fn default() -> Self {
        ModelNetwork::new()
    }
}
