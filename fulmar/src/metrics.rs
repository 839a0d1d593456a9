//! Figures for Prometheus that a command tells while it runs.

use crate::ending::BadUsage;
use fulmar_metrics::Figures;
use std::error::Error;
use std::io;
use std::net::TcpListener;
use std::sync::atomic::AtomicBool;
use std::thread;

/// Where figures are asked for.
pub(crate) fn listen(address: &str) -> Result<TcpListener, Box<dyn Error>> {
    TcpListener::bind(address).map_err(|error| match error.kind() {
        io::ErrorKind::InvalidInput => {
            let expected = format!("metrics = \"{address}\": expected HOST:PORT, such as 127.0.0.1:9474");
            BadUsage::new(expected).into()
        }
        _ => format!("cannot listen on {address} for `metrics`: {error}").into(),
    })
}

/// Tells whoever asks there what `figures` says then.
pub(crate) fn tell(
    listener: TcpListener,
    figures: impl Fn() -> Figures + Send + 'static,
) -> Result<(), String> {
    let tell = move || {
        let never = AtomicBool::new(false);
        if let Err(why) = fulmar_metrics::serve(&listener, figures, &never) {
            tracing::warn!("figures are not told any more: {why}");
        }
    };
    let begun = thread::Builder::new().name("metrics".into()).spawn(tell);
    begun.map(drop).map_err(|error| format!("cannot begin to tell figures: {error}"))
}
