//! Statements that run on either database.

use std::borrow::Cow;
use std::collections::BTreeMap;

use futures_util::future::BoxFuture;
use sqlx::error::BoxDynError;
use sqlx::postgres::{PgArguments, PgQueryResult, PgRow};
use sqlx::sqlite::{SqliteArguments, SqliteQueryResult, SqliteRow};
use sqlx::{Arguments, AssertSqlSafe, Encode, FromRow, PgConnection, Postgres, Sqlite, SqliteConnection, Type};
use uuid::Uuid;

use super::timeout::TimedPool;
use super::transactions::Transactions;
use super::{StoreError, codec};

/// A value that both databases can store.
pub trait Value<'v>: Encode<'v, Sqlite> + Type<Sqlite> + Encode<'v, Postgres> + Type<Postgres> {}

impl<'v, T> Value<'v> for T where T: Encode<'v, Sqlite> + Type<Sqlite> + Encode<'v, Postgres> + Type<Postgres> {}

/// A row that can be read from both databases.
pub trait Record: for<'r> FromRow<'r, SqliteRow> + for<'r> FromRow<'r, PgRow> + Send {}

impl<T> Record for T where T: for<'r> FromRow<'r, SqliteRow> + for<'r> FromRow<'r, PgRow> + Send {}

/// The connection on which a statement runs.
pub(super) enum Target<'t, D: Transactions> {
    /// Any connection of a pool, with the timeout of the pool.
    Pool(&'t TimedPool<D>),
    /// The same, with a commit.
    Writer(&'t TimedPool<D>),
    /// The connection of a transaction.
    Transaction(&'t mut D::Connection),
}

impl<'t, D: Transactions> Target<'t, D> {
    /// Returns the target of a statement on the connections for writes. A query needs no commit.
    pub(super) fn of_writer(pool: &'t TimedPool<D>, is_query: bool) -> Self {
        if is_query { Self::Pool(pool) } else { Self::Writer(pool) }
    }

    async fn run<T>(
        self,
        work: impl for<'c> FnOnce(&'c mut D::Connection) -> BoxFuture<'c, Result<T, sqlx::Error>> + Send,
    ) -> Result<T, StoreError> {
        match self {
            Self::Pool(pool) => pool.run(work).await,
            Self::Writer(pool) => pool.write(work).await,
            Self::Transaction(connection) => Ok(work(connection).await?),
        }
    }
}

/// The values of a statement, in the encoding of its database.
pub(super) enum Bound<'t> {
    Sqlite(Target<'t, Sqlite>, SqliteArguments),
    Postgres(Target<'t, Postgres>, PgArguments),
}

/// A statement with its values. A fixed statement numbers its parameters (`$1`) and receives their values by
/// [`bind`](Self::bind); the text of a composed one grows with its values.
pub struct Query<'t> {
    sql: Cow<'static, str>,
    bound: Bound<'t>,
    error: Option<BoxDynError>,
    is_persistent: bool,
}

/// The result of a statement, from its database.
enum OfDatabase<S, P> {
    Sqlite(S),
    Postgres(P),
}

type Rows = OfDatabase<Vec<SqliteRow>, Vec<PgRow>>;
type Row = OfDatabase<Option<SqliteRow>, Option<PgRow>>;
type ExecuteResult = OfDatabase<SqliteQueryResult, PgQueryResult>;

/// Runs a statement by a method of sqlx's executors, and returns a `$type`.
macro_rules! run {
    ($query:expr, $method:ident, $type:ident) => {{
        let Query { sql, bound, error, is_persistent } = $query;
        if let Some(error) = error {
            return Err(sqlx::Error::Encode(error).into());
        }
        let sql = AssertSqlSafe(sql);
        match bound {
            Bound::Sqlite(target, arguments) => {
                let query = sqlx::query_with(sql, arguments).persistent(is_persistent);
                $type::Sqlite(target.run(|connection| sqlx::Executor::$method(connection, query)).await?)
            }
            Bound::Postgres(target, arguments) => {
                let query = sqlx::query_with(sql, arguments).persistent(is_persistent);
                $type::Postgres(target.run(|connection| sqlx::Executor::$method(connection, query)).await?)
            }
        }
    }};
}

impl<'t> Query<'t> {
    pub(super) fn new(sql: impl Into<Cow<'static, str>>, bound: Bound<'t>) -> Self {
        Self { sql: sql.into(), bound, error: None, is_persistent: true }
    }

    /// Adds the value of the next parameter.
    #[must_use]
    pub fn bind<'v>(mut self, value: impl Value<'v>) -> Self {
        let added = match &mut self.bound {
            Bound::Sqlite(_, arguments) => Arguments::add(arguments, value),
            Bound::Postgres(_, arguments) => arguments.add(value),
        };
        self.error = self.error.or(added.err());
        self
    }

    /// Adds an array as the value of the next parameter, or NULL if it has no elements. Only Postgres has arrays.
    #[must_use]
    pub fn bind_array<'v, T: 'v>(mut self, values: impl IntoIterator<Item = T>) -> Self
    where
        Vec<T>: Encode<'v, Postgres> + Type<Postgres>,
    {
        let values: Vec<T> = values.into_iter().collect();
        let added = match &mut self.bound {
            Bound::Sqlite(..) => Err("SQLite has no arrays".into()),
            Bound::Postgres(_, arguments) => arguments.add((!values.is_empty()).then_some(values)),
        };
        self.error = self.error.or(added.err());
        self
    }

    /// Adds text to the statement.
    #[must_use]
    pub fn push(mut self, sql: &str) -> Self {
        self.sql.to_mut().push_str(sql);
        self
    }

    /// Adds a parameter with its value.
    #[must_use]
    pub fn push_bind<'v>(self, value: impl Value<'v>) -> Self {
        let mut query = self.bind(value);
        let sql = query.sql.to_mut();
        // Writing to a string cannot fail.
        let _ = match &query.bound {
            Bound::Sqlite(_, arguments) => arguments.format_placeholder(sql),
            Bound::Postgres(_, arguments) => arguments.format_placeholder(sql),
        };
        query
    }

    /// Adds text and a parameter if there is a value.
    #[must_use]
    pub fn push_some<'v>(self, sql: &str, value: Option<impl Value<'v>>) -> Self {
        match value {
            Some(value) => self.push(sql).push_bind(value),
            None => self,
        }
    }

    /// Adds a list of values in parentheses.
    #[must_use]
    pub fn push_list<'v>(mut self, values: impl IntoIterator<Item = impl Value<'v>>) -> Self {
        let mut separator = "(";
        for value in values {
            self = self.push(separator).push_bind(value);
            separator = ", ";
        }
        self.push(")")
    }

    /// Adds the condition that this column has one of these values. On Postgres, they are one array, because planning a
    /// list of some hundred parameters takes longer than reading their rows. The range keeps plans cheap whose
    /// statistics are old: Postgres may then read a whole shard and filter, but ids that are read together are close.
    fn push_any(mut self, column: &str, values: Vec<&Uuid>) -> Self {
        let Bound::Postgres(_, arguments) = &mut self.bound else {
            return self.push(column).push(" IN ").push_list(values);
        };
        let (first, last) = (values.iter().min().copied(), values.iter().max().copied());
        let values: Vec<Uuid> = values.iter().map(|value| **value).collect();
        self.error = self.error.or(arguments.add(values).err());
        let number = arguments.len();
        let query = self.push(&format!("{column} = ANY (${number})"));
        query.push(" AND ").push(column).push(" BETWEEN ").push_bind(first).push(" AND ").push_bind(last)
    }

    /// Adds the values of the two parameters of a call: its shard and its id.
    #[must_use]
    pub fn bind_call(self, id: Uuid) -> Self {
        self.bind(codec::shard_of_call(id)).bind(id)
    }

    /// Adds the condition that a row belongs to one of these calls. `columns` are those of the shard and of the id.
    #[must_use]
    pub fn push_calls<'i>(mut self, columns: [&str; 2], ids: impl IntoIterator<Item = &'i Uuid>) -> Self {
        let mut of_shards: BTreeMap<i16, Vec<&Uuid>> = BTreeMap::new();
        for id in ids {
            of_shards.entry(codec::shard_of_call(*id)).or_default().push(id);
        }
        let [shard, id] = columns;
        let mut separator = "(";
        for (number, ids) in of_shards {
            self = self.push(separator).push(shard).push(" = ").push_bind(number);
            self = self.push(" AND ").push_any(id, ids);
            separator = " OR ";
        }
        // Without calls, no row matches.
        self.push(if separator == "(" { "(FALSE)" } else { ")" })
    }

    /// Adds text before the statement.
    #[must_use]
    pub fn prefixed(mut self, prefix: &str) -> Self {
        self.sql.to_mut().insert_str(0, prefix);
        self
    }

    /// Keeps the statement out of the cache of prepared statements. Statements with lists vary, so they would only
    /// evict others.
    #[must_use]
    pub fn uncached(self) -> Self {
        Self { is_persistent: false, ..self }
    }

    /// Returns all rows.
    pub async fn all<T: Record>(self) -> Result<Vec<T>, StoreError> {
        Ok(match self.fetch_all().await? {
            Rows::Sqlite(rows) => rows.iter().map(T::from_row).collect::<Result<_, _>>()?,
            Rows::Postgres(rows) => rows.iter().map(T::from_row).collect::<Result<_, _>>()?,
        })
    }

    /// Runs the statement. The type of the records is not a parameter, so that the compiler builds the access to the database
    /// once; and the future is in a box, so that it proves once that it can be sent.
    fn fetch_all(self) -> BoxFuture<'t, Result<Rows, StoreError>> {
        Box::pin(async move { Ok(run!(self, fetch_all, Rows)) })
    }

    /// Returns the only column of all rows.
    pub async fn column<T>(self) -> Result<Vec<T>, StoreError>
    where
        (T,): Record,
    {
        Ok(self.all::<(T,)>().await?.into_iter().map(|(value,)| value).collect())
    }

    /// Returns the first row, if there is any.
    pub async fn optional<T: Record>(self) -> Result<Option<T>, StoreError> {
        Ok(match self.fetch_optional().await? {
            Row::Sqlite(row) => row.as_ref().map(T::from_row).transpose()?,
            Row::Postgres(row) => row.as_ref().map(T::from_row).transpose()?,
        })
    }

    fn fetch_optional(self) -> BoxFuture<'t, Result<Row, StoreError>> {
        Box::pin(async move { Ok(run!(self, fetch_optional, Row)) })
    }

    /// Returns the only row.
    pub async fn one<T: Record>(self) -> Result<T, StoreError> {
        Ok(self.optional().await?.ok_or(sqlx::Error::RowNotFound)?)
    }

    /// Runs the statement and returns the number of rows that it changed.
    pub async fn execute(self) -> Result<u64, StoreError> {
        Ok(match self.done().await? {
            ExecuteResult::Sqlite(done) => done.rows_affected(),
            ExecuteResult::Postgres(done) => done.rows_affected(),
        })
    }

    fn done(self) -> BoxFuture<'t, Result<ExecuteResult, StoreError>> {
        Box::pin(async move { Ok(run!(self, execute, ExecuteResult)) })
    }
}

/// A running transaction.
pub enum Transaction<'t> {
    /// A transaction on SQLite.
    Sqlite(&'t mut SqliteConnection),
    /// A transaction on Postgres.
    Postgres(&'t mut PgConnection),
}

impl Transaction<'_> {
    /// Creates a statement of this transaction.
    pub fn query(&mut self, sql: impl Into<Cow<'static, str>>) -> Query<'_> {
        let bound = match self {
            Self::Sqlite(connection) => Bound::Sqlite(Target::Transaction(&mut **connection), Default::default()),
            Self::Postgres(connection) => Bound::Postgres(Target::Transaction(&mut **connection), Default::default()),
        };
        Query::new(sql, bound)
    }
}
