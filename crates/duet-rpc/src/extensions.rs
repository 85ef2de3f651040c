//! Extensions: values that the application keeps with a connection, one of each type.

use std::any::{Any, TypeId};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustc_hash::FxHashMap;

use crate::panic_guard;
use crate::sync::lock;

/// Values by their type; `None` once the connection is over.
pub(crate) struct Extensions(Mutex<Option<Values>>);

type Values = FxHashMap<TypeId, Arc<dyn Any + Send + Sync>>;

impl Default for Extensions {
    fn default() -> Self {
        Extensions(Mutex::new(Some(Values::default())))
    }
}

impl Extensions {
    /// The value of this type, made now if there is none.
    pub(crate) fn get<T: Default + Send + Sync + 'static>(&self) -> Arc<T> {
        if let Some(value) = find(&self.lock()) {
            return value;
        }
        // Make the value without the lock, because that runs code of the application.
        let made = Arc::new(T::default());
        let mut values = self.lock();
        // Another thread may have added a value meanwhile.
        if let Some(value) = find(&values) {
            return value;
        }
        if let Some(values) = &mut *values {
            values.insert(TypeId::of::<T>(), Arc::clone(&made) as _);
        }
        made
    }

    /// Drops all values. They may hold handles of this connection.
    pub(crate) fn close(&self) {
        let values = self.lock().take();
        let _ = panic_guard::catch(move || drop(values));
    }

    /// Drops all values of a connection that nobody else holds.
    pub(crate) fn clear(&mut self) {
        let values = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        if values.as_ref().is_some_and(|values| !values.is_empty()) {
            self.close();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Values>> {
        lock(&self.0)
    }
}

fn find<T: Send + Sync + 'static>(values: &Option<Values>) -> Option<Arc<T>> {
    let value = values.as_ref()?.get(&TypeId::of::<T>())?;
    Arc::clone(value).downcast().ok()
}
