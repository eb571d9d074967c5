//! `--tenant`: whose tools, calls and counts a command is about.

use toolpost::access::Access;
use toolpost::app::App;
use toolpost::domain::{Caller, Tenant};

use super::error::CliError;
use super::keys;

/// Whose.
#[derive(Debug, clap::Args)]
pub struct TenantArg {
    /// The tenant; what it registered comes over what the server declares for all
    #[arg(long, default_value = "default", value_name = "NAME", value_parser = keys::tenant)]
    tenant: Tenant,
}

impl TenantArg {
    /// All that this tenant has, with everything allowed.
    ///
    /// # Errors
    /// A tenant that has nothing at all is a mistyped one. Where tokens name the tenants, it may only be new.
    pub async fn access(&self, app: &App) -> Result<Access, CliError> {
        let Self { tenant } = self;
        let stores = app.store.stores();
        let opened = async {
            let is_named_by_tokens = !app.config.auth.jwt.tenant_claim.is_empty();
            if !is_named_by_tokens && !stores.of(tenant).has_anything().await? {
                return Ok(None);
            }
            let caller = Caller { tenant: tenant.clone(), ..Caller::operator() };
            Access::open(caller, stores, app.engine.registry()).await.map(Some)
        };
        let opened = opened.await.map_err(|error| CliError::store(&error, &app.config.database_url()))?;
        opened.ok_or_else(|| {
            CliError::usage(format!("there is no tenant \"{}\"", tenant.as_str())).hint(
                "It has neither keys nor tools, sessions or calls. `toolpost keys list` shows the tenants that have keys, and \
                 `toolpost keys create --tenant NAME` makes the first of another.",
            )
        })
    }
}
