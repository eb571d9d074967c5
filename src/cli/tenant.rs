//! `--tenant`: the tenant that a command applies to.

use crate::access::Access;
use crate::app::App;
use crate::domain::{Caller, Tenant};

use super::error::CliError;
use super::keys;

/// The `--tenant` option.
#[derive(Debug, clap::Args)]
pub struct TenantArg {
    /// Use this tenant, whose registered tools shadow the tools of the server
    #[arg(long, default_value = "default", value_name = "NAME", value_parser = keys::tenant)]
    tenant: Tenant,
}

impl TenantArg {
    /// Checks that no tenant is selected, because the key of a service determines it.
    pub fn expect_default(&self) -> Result<(), CliError> {
        if self.tenant == Tenant::default() {
            return Ok(());
        }
        Err(CliError::usage("--tenant selects a tenant of the database; for a service, the key determines the tenant")
            .hint("Use a key of the tenant with --key or TOOLPOST_KEY, or omit --server (TOOLPOST_SERVER)."))
    }

    /// Returns full access to the tenant.
    ///
    /// # Errors
    /// Returns an error if the tenant owns nothing, because its name is probably mistyped. If tokens name the tenants,
    /// it may be new and is accepted.
    pub async fn access(&self, app: &App) -> Result<Access, CliError> {
        let Self { tenant } = self;
        let stores = app.store.stores();
        let opened = async {
            let is_named_by_tokens = !app.config.auth.jwt.tenant_claim.is_empty();
            if !is_named_by_tokens && !stores.for_tenant(tenant).has_anything().await? {
                return Ok(None);
            }
            let caller = Caller { tenant: tenant.clone(), ..Caller::operator() };
            Access::open(caller, stores, app.engine.registry()).await.map(Some)
        };
        let opened = opened.await.map_err(|error| CliError::store(&error, &app.config.database_url()))?;
        opened.ok_or_else(|| {
            CliError::usage(format!("unknown tenant \"{}\"", tenant.as_str())).hint(
                "The tenant has no keys, tools, sessions or calls. List the tenants with keys by `toolpost keys list`, \
                 or create the first key of a tenant with `toolpost keys create --tenant NAME`.",
            )
        })
    }
}
