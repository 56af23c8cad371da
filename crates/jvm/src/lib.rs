//! What Java and Kotlin sources say about one Kafka record's way to MongoDB: who listens, which error handler and back-off
//! apply, which writes a record causes and what stands around them, what is set on clients and consumers.
//!
//! ```
//! use backfire_jvm::{Project, SourceFile};
//!
//! let files = [SourceFile {
//!     path: "Orders.java".into(),
//!     text: r#"
//!         class Orders {
//!             private final org.springframework.data.mongodb.core.MongoTemplate template;
//!             @KafkaListener(topics = "orders")
//!             void on(Order order) { template.insert(new Stored(order.sku())); }
//!         }
//!         record Stored(String sku) {}
//!     "#
//!     .into(),
//! }];
//! let analysis = Project::parse(&files).analyze();
//! assert_eq!(analysis.listeners[0].writes[0].operation, "insert");
//! ```
//!
//! The way of a file: a quick look ([`scan`](Project::parse)) says what it declares and whether it can matter; files that
//! can are parsed with a grammar into one tree for both languages; then the sources are run on values that are only partly
//! known. This room does no I/O: texts come in, a plain value goes out.

mod analysis;
mod back_off;
mod condition;
mod consumer_factory;
mod container;
mod error_handler;
mod header;
mod index;
mod java;
mod kotlin;
mod kotlin_outline;
mod listener;
mod machine;
mod mongo;
mod outline;
mod project;
mod retry;
mod scan;
mod span;
mod syntax;
mod tree;
mod value;

pub use analysis::{Analysis, ExceptionClass, Link, Named, PathStep, Problem, Setting};
pub use back_off::{BackOff, BackOffKind, Unresolved};
pub use condition::{Configuration, Known};
pub use consumer_factory::{ConsumerFactory, ConsumerProperty};
pub use container::ContainerFactory;
pub use error_handler::{Delegate, ErrorHandler, HandlerKind, Recoverer, RecovererKind};
pub use listener::{Listener, ListenerKind, Parameter};
pub use mongo::client::{ClientKind, MongoClient, SETTINGS as CLIENT_SETTINGS};
pub use mongo::write::{Api, Around, AroundKind, Bulk, BulkOperation, Command, IdKind, Identity, MaxTime, Write};
pub use project::{Project, SourceFile};
pub use retry::{Retry, RetryKind, RetryTopic};
pub use span::Span;
pub use value::{Operation, Property, Unknown, Value};
