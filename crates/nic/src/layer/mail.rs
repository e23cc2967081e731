//! The calls of a [`Port`](crate::fabric::Port) on mailboxes, which no layer changes.
//!
//! Like commands of queues, what goes into a mailbox is no message: there is nothing between the
//! writer's store and the reader's load where a fault could be put.

/// Passes the calls on mailboxes through to a port.
macro_rules! pass_mail {
    ($port:ident) => {
        fn has_mailboxes(&self) -> bool {
            self.$port.has_mailboxes()
        }

        fn open_mailbox(
            &mut self,
            from: Rank,
            room: u32,
        ) -> Result<(u32, $crate::fabric::MailboxAddress), RegionError> {
            self.$port.open_mailbox(from, room)
        }

        fn close_mailbox(&mut self, mailbox: u32) {
            self.$port.close_mailbox(mailbox);
        }

        fn write_mail(
            &mut self,
            to: $crate::fabric::MailboxAddress,
            round: u64,
            at: u32,
            bytes: &[u8],
        ) -> Result<(), $crate::fabric::PostError> {
            self.$port.write_mail(to, round, at, bytes)
        }

        fn post_mail(
            &mut self,
            to: $crate::fabric::MailboxAddress,
            round: u64,
        ) -> Result<(), $crate::fabric::PostError> {
            self.$port.post_mail(to, round)
        }

        fn has_mail(&mut self, mailbox: u32, round: u64) -> bool {
            self.$port.has_mail(mailbox, round)
        }

        fn read_mail(
            &self,
            mailbox: u32,
            round: u64,
            at: u32,
            into: &mut [u8],
        ) -> Result<(), $crate::fabric::PostError> {
            self.$port.read_mail(mailbox, round, at, into)
        }

        fn end_mail(&mut self, to: $crate::fabric::MailboxAddress, end: $crate::fabric::MailEnd) {
            self.$port.end_mail(to, end);
        }

        fn mail_end(&self, mailbox: u32) -> Option<$crate::fabric::MailEnd> {
            self.$port.mail_end(mailbox)
        }
    };
}
pub(crate) use pass_mail;
