//! Pages for people: the playground, assertion sets, runs, and the quality of production.
//!
//! The server renders each page, and each page works without its script. No page has an inline script or style, because
//! the content security policy permits only files of this server.

mod access;
mod assets;
mod checks;
mod embed;
mod frame;
mod login;
mod monitor;
mod playground;
mod request;
mod runs;
mod sets;
mod today;

use axum::Router;

use crate::app::App;

/// Makes the routes of all pages.
pub(crate) fn routes(app: &App) -> Router<App> {
    assets::routes()
        .merge(embed::routes())
        .merge(login::routes())
        .merge(playground::routes(app))
        .merge(sets::routes(app))
        .merge(runs::routes(app))
        .merge(monitor::routes(app))
}
