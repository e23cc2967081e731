//! The calls of a [`Port`](crate::fabric::Port) on contexts and their tables, which no layer
//! changes: they are the rank's own affair and nothing of them is on its way to anybody.

/// Passes the calls on contexts through to a port.
macro_rules! pass_contexts {
    ($port:ident) => {
        fn open_context(
            &mut self,
        ) -> Result<$crate::fabric::ContextId, $crate::fabric::ContextError> {
            self.$port.open_context()
        }

        fn close_context(
            &mut self,
            context: $crate::fabric::ContextId,
        ) -> Result<(), $crate::fabric::ContextError> {
            self.$port.close_context(context)
        }

        fn connect(
            &mut self,
            context: $crate::fabric::ContextId,
            members: &[$crate::fabric::Member],
        ) -> Result<(), $crate::fabric::ContextError> {
            self.$port.connect(context, members)
        }

        fn member(
            &self,
            context: $crate::fabric::ContextId,
            logical: u32,
        ) -> Result<$crate::fabric::Member, $crate::fabric::PostError> {
            self.$port.member(context, logical)
        }

        fn register(
            &mut self,
            context: $crate::fabric::ContextId,
            offset: u64,
            length: u64,
            rights: $crate::fabric::Rights,
        ) -> Result<$crate::fabric::Key, $crate::fabric::ContextError> {
            self.$port.register(context, offset, length, rights)
        }

        fn deregister(
            &mut self,
            key: $crate::fabric::Key,
        ) -> Result<(), $crate::fabric::ContextError> {
            self.$port.deregister(key)
        }

        fn register_key(
            &self,
            context: $crate::fabric::ContextId,
            register: u8,
        ) -> Result<$crate::fabric::Key, $crate::fabric::ContextError> {
            self.$port.register_key(context, register)
        }

        fn set_address_register(
            &mut self,
            context: $crate::fabric::ContextId,
            register: u8,
            value: Option<$crate::fabric::RegisterValue>,
        ) -> Result<(), $crate::fabric::ContextError> {
            self.$port.set_address_register(context, register, value)
        }

        fn address_register(
            &self,
            context: $crate::fabric::ContextId,
            register: u8,
        ) -> Result<Option<$crate::fabric::RegisterValue>, $crate::fabric::ContextError> {
            self.$port.address_register(context, register)
        }
    };
}
pub(super) use pass_contexts;
