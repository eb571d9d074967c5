//! Values as columns of a database.

use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::{Database, Decode, Encode, Type};

use super::{Tenant, Time};

impl<D: Database> Type<D> for Time
where
    i64: Type<D>,
{
    fn type_info() -> D::TypeInfo {
        i64::type_info()
    }

    fn compatible(info: &D::TypeInfo) -> bool {
        i64::compatible(info)
    }
}

impl<'v, D: Database> Encode<'v, D> for Time
where
    i64: Encode<'v, D>,
{
    fn encode_by_ref(&self, buffer: &mut D::ArgumentBuffer) -> Result<IsNull, BoxDynError> {
        self.0.encode_by_ref(buffer)
    }
}

impl<'r, D: Database> Decode<'r, D> for Time
where
    i64: Decode<'r, D>,
{
    fn decode(value: D::ValueRef<'r>) -> Result<Self, BoxDynError> {
        i64::decode(value).map(Self)
    }
}

impl<D: Database> Type<D> for Tenant
where
    String: Type<D>,
{
    fn type_info() -> D::TypeInfo {
        String::type_info()
    }

    fn compatible(info: &D::TypeInfo) -> bool {
        String::compatible(info)
    }
}

impl<'v, D: Database> Encode<'v, D> for Tenant
where
    for<'a> &'a str: Encode<'a, D>,
{
    fn encode_by_ref(&self, buffer: &mut D::ArgumentBuffer) -> Result<IsNull, BoxDynError> {
        self.as_str().encode_by_ref(buffer)
    }
}

impl<'r, D: Database> Decode<'r, D> for Tenant
where
    &'r str: Decode<'r, D>,
{
    fn decode(value: D::ValueRef<'r>) -> Result<Self, BoxDynError> {
        <&str>::decode(value).map(Self::stored)
    }
}
