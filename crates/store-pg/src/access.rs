//! The access tokens of a tenant (G113). Row-level security hides the tokens of other tenants (G103).

use postgres_types::Type;
use tokio_postgres::Row;
use workrail_model::digest::Sha256;
use workrail_model::id::AccessTokenId;
use workrail_model::name::PrincipalName;
use workrail_model::team::{AccessToken, Role};
use workrail_model::time::Timestamp;
use workrail_ports::access::AccessTokens;
use workrail_ports::file_system::FsOp;
use workrail_ports::keyring::KeyringError;

use crate::error::StatementError;
use crate::open::PgStore;
use crate::transaction::Purpose;

const ERROR_PATH: &str = "access_token";

const COLUMNS: &str =
    "SELECT id, name, role, digest, created_at, expires_at, revoked_at FROM workrail.access_token";

const ADD: &str = "INSERT INTO workrail.access_token (tenant, id, name, role, digest, created_at, expires_at) \
                   VALUES (current_setting('workrail.tenant'), $1, $2, $3, $4, $5, $6)";

const REVOKE: &str =
    "UPDATE workrail.access_token SET revoked_at = coalesce(revoked_at, $2) WHERE id = $1 RETURNING id";

fn failed(op: FsOp, error: &StatementError) -> KeyringError {
    error.of_keys(op, ERROR_PATH)
}

fn parse(row: &Row) -> Result<AccessToken, KeyringError> {
    let invalid = |column: &str| KeyringError::Invalid {
        path: ERROR_PATH.to_owned(),
        problem: format!("`{column}` is not what it must be"),
    };
    let time = |column: usize, name: &str| {
        let text = row.get::<_, Option<&str>>(column);
        text.map(|text| Timestamp::parse(text).map_err(|_| invalid(name))).transpose()
    };
    Ok(AccessToken {
        id: AccessTokenId::parse(row.get(0)).map_err(|_| invalid("id"))?,
        name: PrincipalName::parse(row.get(1)).map_err(|_| invalid("name"))?,
        role: Role::parse(row.get(2)).ok_or_else(|| invalid("role"))?,
        digest: Sha256::parse(row.get(3)).map_err(|_| invalid("digest"))?,
        created_at: time(4, "created_at")?.ok_or_else(|| invalid("created_at"))?,
        expires_at: time(5, "expires_at")?.ok_or_else(|| invalid("expires_at"))?,
        revoked_at: time(6, "revoked_at")?,
    })
}

impl AccessTokens for PgStore {
    fn access_tokens(&self) -> Result<Vec<AccessToken>, KeyringError> {
        let sql = format!("{COLUMNS} ORDER BY created_at, id");
        let rows = self.in_transaction(Purpose::Reading, |transaction| transaction.query(&sql, &[]));
        rows.map_err(|error| failed(FsOp::Read, &error))?.iter().map(parse).collect()
    }

    fn access_token(&self, id: AccessTokenId) -> Result<Option<AccessToken>, KeyringError> {
        let (sql, id) = (format!("{COLUMNS} WHERE id = $1"), id.to_string());
        let row = self.in_transaction(Purpose::Reading, |transaction| {
            transaction.query_opt(&sql, &[(&id, Type::TEXT)])
        });
        row.map_err(|error| failed(FsOp::Read, &error))?.as_ref().map(parse).transpose()
    }

    fn add_access_token(&self, token: &AccessToken) -> Result<(), KeyringError> {
        let AccessToken { id, name, role, digest, created_at, expires_at, revoked_at: _ } = token;
        let (id, digest) = (id.to_string(), digest.to_string());
        let parameters = [
            (&id as _, Type::TEXT),
            (&name.as_str() as _, Type::TEXT),
            (&role.as_str() as _, Type::TEXT),
            (&digest as _, Type::TEXT),
            (&created_at.as_str() as _, Type::TEXT),
            (&expires_at.as_str() as _, Type::TEXT),
        ];
        let added = self.in_transaction(Purpose::Writing, |transaction| transaction.query(ADD, &parameters));
        added.map(drop).map_err(|error| failed(FsOp::Write, &error))
    }

    fn revoke_access_token(&self, id: AccessTokenId, at: &Timestamp) -> Result<bool, KeyringError> {
        let (id, at) = (id.to_string(), at.as_str());
        let parameters = [(&id as _, Type::TEXT), (&at as _, Type::TEXT)];
        let revoked =
            self.in_transaction(Purpose::Writing, |transaction| transaction.query_opt(REVOKE, &parameters));
        revoked.map(|row| row.is_some()).map_err(|error| failed(FsOp::Write, &error))
    }
}
