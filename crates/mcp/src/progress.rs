//! Reports how far a long call is, to a client that asked for it.

use std::sync::Arc;

use rmcp::model::ProgressNotificationParam;
use rmcp::service::{RequestContext, RoleServer};
use tokio::sync::mpsc::channel;

use crate::call::Execution;

/// More reports wait only if a client does not read; later ones make up for those dropped.
const WAITING_MAX: usize = 16;

/// The execution that reports, and the task that forwards the reports until the call has ended.
pub(crate) fn reporting(
    execution: Arc<dyn Execution>,
    context: &RequestContext<RoleServer>,
) -> (Arc<dyn Execution>, impl Future<Output = ()> + use<>) {
    let (sender, mut reports) = channel::<String>(WAITING_MAX);
    let token = context.meta.get_progress_token();
    let execution = match &token {
        Some(_) => execution.reporting_to(Arc::new(move |report: &str| {
            let _ = sender.try_send(report.to_owned());
        })),
        None => execution,
    };
    let peer = context.peer.clone();
    let forwarding = async move {
        let Some(token) = token else { return };
        let mut count = 0.0;
        while let Some(report) = reports.recv().await {
            count += 1.0;
            let progress = ProgressNotificationParam::new(token.clone(), count).with_message(report);
            // A client that does not accept it misses the report.
            let _ = peer.notify_progress(progress).await;
        }
    };
    (execution, forwarding)
}
