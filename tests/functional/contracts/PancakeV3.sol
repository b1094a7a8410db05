// SPDX-License-Identifier: MIT
pragma solidity ^0.8.20;

// The npm packages of PancakeSwap V3 contain the factory and the pool. These contracts replace the missing ones: the
// deployer, whose interface is IPancakeV3PoolDeployer, and the periphery.

interface IToken {
    function transferFrom(address from, address to, uint256 amount) external returns (bool);
}

interface IPool {
    function token0() external view returns (address);
    function token1() external view returns (address);
    function initialize(uint160 sqrtPriceX96) external;
    function mint(address recipient, int24 lower, int24 upper, uint128 liquidity, bytes calldata data)
        external
        returns (uint256 amount0, uint256 amount1);
    function swap(address recipient, bool zeroForOne, int256 amount, uint160 limit, bytes calldata data)
        external
        returns (int256 amount0, int256 amount1);
}

contract PancakeDeployer {
    struct Parameters {
        address factory;
        address token0;
        address token1;
        uint24 fee;
        int24 tickSpacing;
    }

    Parameters public parameters;
    address private immutable code;

    /// `_code` is an account whose code is the creation code of a pool.
    constructor(address _code) {
        code = _code;
    }

    function deploy(address factory, address token0, address token1, uint24 fee, int24 tickSpacing)
        external
        returns (address pool)
    {
        parameters = Parameters(factory, token0, token1, fee, tickSpacing);
        bytes memory creation = code.code;
        bytes32 salt = keccak256(abi.encode(token0, token1, fee));
        assembly {
            pool := create2(0, add(creation, 32), mload(creation), salt)
        }
        require(pool != address(0), "the pool's constructor failed");
        delete parameters;
    }
}

contract PancakeTrader {
    uint160 private constant LOWEST = 4295128740;
    uint160 private constant HIGHEST = 1461446703485210103287273052203988822378723970341;

    function mint(IPool pool, uint160 root, int24 lower, int24 upper, uint128 liquidity) external {
        pool.initialize(root);
        pool.mint(address(this), lower, upper, liquidity, abi.encode(msg.sender));
    }

    /// A positive amount is the input, a negative one the output.
    function swap(IPool pool, bool zeroForOne, int256 amount) public returns (int256 amount0, int256 amount1) {
        return pool.swap(msg.sender, zeroForOne, amount, zeroForOne ? LOWEST : HIGHEST, abi.encode(msg.sender));
    }

    /// Each pool's output is the input of the next one. The caller pays and gets every amount.
    function route(IPool[] calldata pools, address token, int256 amount) external {
        for (uint256 at = 0; at < pools.length; at++) {
            bool zeroForOne = pools[at].token0() == token;
            (int256 amount0, int256 amount1) = swap(pools[at], zeroForOne, amount);
            (token, amount) = zeroForOne ? (pools[at].token1(), -amount1) : (pools[at].token0(), -amount0);
        }
    }

    function pancakeV3MintCallback(uint256 amount0, uint256 amount1, bytes calldata data) external {
        _pay(int256(amount0), int256(amount1), data);
    }

    function pancakeV3SwapCallback(int256 amount0, int256 amount1, bytes calldata data) external {
        _pay(amount0, amount1, data);
    }

    function _pay(int256 amount0, int256 amount1, bytes calldata data) private {
        address payer = abi.decode(data, (address));
        if (amount0 > 0) IToken(IPool(msg.sender).token0()).transferFrom(payer, msg.sender, uint256(amount0));
        if (amount1 > 0) IToken(IPool(msg.sender).token1()).transferFrom(payer, msg.sender, uint256(amount1));
    }
}
