//! Who uses this machine: how records in a shared store name a user without a token (G114).

use camino::Utf8Path;
use workrail_model::name::PrincipalName;
use workrail_model::team::{Actor, ActorText};

use crate::bounded;

const PASSWD_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// The user that this process runs as, and the name of the machine.
pub fn local_user() -> Option<Actor> {
    let id = rustix::process::getuid().as_raw();
    let passwd = bounded::read(Utf8Path::new("/etc/passwd"), PASSWD_BYTES_MAX).unwrap_or_default();
    let name = name_in(&String::from_utf8_lossy(&passwd), id);
    // A user from a directory service is not in the file, so the name is unknown here.
    let name = name.or_else(|| PrincipalName::parse(&format!("uid-{id}")).ok())?;
    let machine = rustix::system::uname();
    let host = machine.nodename().to_str().ok().filter(|host| !host.is_empty()).map(ActorText::clip);
    Some(Actor { name, role: None, token_id: None, client: None, host })
}

fn name_in(passwd: &str, id: u32) -> Option<PrincipalName> {
    let id = id.to_string();
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, _, user_id) = (fields.next()?, fields.next()?, fields.next()?);
        (user_id == id).then(|| PrincipalName::parse(name).ok()).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_found_by_number() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\nada:x:1000:1000::/home/ada:/bin/sh\n\nbroken\n";
        assert_eq!(name_in(passwd, 1000).map(|name| name.to_string()).as_deref(), Some("ada"));
        assert_eq!(name_in(passwd, 0).map(|name| name.to_string()).as_deref(), Some("root"));
        assert_eq!(name_in(passwd, 100), None);
    }
}
