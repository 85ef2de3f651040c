mod code_not_a_number {
    const CODE: i64 = 5;

    #[derive(Debug, duet_rpc::RpcError)]
    enum Failed {
        #[rpc(code = CODE)]
        Constant,
        #[rpc(code = "1")]
        Text,
        #[rpc(code = 1.5)]
        Fraction,
    }
}

mod duplicate_code {
    #[derive(Debug, duet_rpc::RpcError)]
    enum Failed {
        #[rpc(code = 1)]
        Overflow,
        #[rpc(code = 1)]
        Underflow,
    }
}

mod generic {
    #[derive(Debug, duet_rpc::RpcError)]
    enum Failed<T> {
        #[rpc(code = 5)]
        Disk(T),
    }
}

mod internal_with_a_code {
    #[derive(Debug, duet_rpc::RpcError)]
    enum Failed {
        #[rpc(internal, code = 5, message = "Disk")]
        Disk(std::io::Error),
    }
}

mod internal_with_two_fields {
    #[derive(Debug, duet_rpc::RpcError)]
    enum Failed {
        #[rpc(internal)]
        Disk(std::io::Error, String),
    }
}

mod message_with_a_field {
    #[derive(Debug, duet_rpc::RpcError)]
    enum Failed {
        #[rpc(code = 5, message = "Overflow at {at}")]
        Overflow { at: usize },
    }
}

mod no_code {
    #[derive(Debug, duet_rpc::RpcError)]
    enum Failed {
        Overflow,
    }
}

mod on_a_union {
    #[derive(duet_rpc::RpcError)]
    union Failed {
        a: u8,
    }
}

mod option_on_a_field {
    #[derive(Debug, duet_rpc::RpcError)]
    enum Failed {
        #[rpc(code = 5)]
        Overflow {
            #[rpc(name = "place")]
            at: usize,
        },
    }
}

mod reserved_code {
    #[derive(Debug, duet_rpc::RpcError)]
    enum Failed {
        #[rpc(code = -32602)]
        Params,
        #[rpc(code = -32768)]
        First,
        #[rpc(code = -32000)]
        Busy,
        // These are for applications.
        #[rpc(code = -32001)]
        Last,
        #[rpc(code = -32099)]
        Least,
        #[rpc(code = -32769)]
        Below,
    }
}

mod struct_without_a_code {
    #[derive(Debug, duet_rpc::RpcError)]
    struct Failed;
}

mod transparent_without_a_field {
    #[derive(Debug, duet_rpc::RpcError)]
    enum Failed {
        #[rpc(transparent)]
        Other,
        #[rpc(code = 5, from)]
        Coded(u8),
    }
}

mod unknown_option {
    #[derive(Debug, duet_rpc::RpcError)]
    #[rpc(code = 1)]
    enum Failed {
        #[rpc(code = 5, data = 1)]
        Overflow,
    }
}

fn main() {}
